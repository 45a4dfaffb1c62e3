//! Tomcat with bakeoff's base directory and a single application, without archive scans.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::app_trade::application::SERVLET;
use crate::app_trade::java::JAVA;
use crate::app_trade::server::{self, AppServer, PORT, Setup};
use crate::context::WorkloadContext;
use crate::database::server::{ACCOUNT, own_dir};
use crate::service::{Service, words};

const SERVER: AppServer = AppServer::Tomcat;

const SERVLETS: &str = "/usr/share/tomcat10/lib/servlet-api.jar";
const CATALINA: &str = "/usr/share/tomcat10/lib/catalina.jar";

/// The required parts of Tomcat.
const CLASSES: [&str; 12] = [
    "/usr/share/tomcat10/bin/bootstrap.jar",
    "/usr/share/tomcat10/bin/tomcat-juli.jar",
    "/usr/share/tomcat10/lib/annotations-api.jar",
    CATALINA,
    "/usr/share/tomcat10/lib/jaspic-api.jar",
    SERVLETS,
    "/usr/share/tomcat10/lib/tomcat-api.jar",
    "/usr/share/tomcat10/lib/tomcat-coyote.jar",
    "/usr/share/tomcat10/lib/tomcat-jdbc.jar",
    "/usr/share/tomcat10/lib/tomcat-jni.jar",
    "/usr/share/tomcat10/lib/tomcat-util-scan.jar",
    "/usr/share/tomcat10/lib/tomcat-util.jar",
];

/// Writes the base directory, and compiles the application if the image has not.
pub(super) fn service(setup: &Setup, context: &WorkloadContext) -> Result<Service> {
    let parts = [&CLASSES[..], &[JAVA, setup.driver()]].concat();
    server::find_parts(&parts, SERVER)?;
    let application = SERVLET.compiled(context, &[PathBuf::from(SERVLETS)])?;
    let base = own_dir(context, "tomcat")?;
    context.make_dir("tomcat/conf")?;
    let properties = context.write("tomcat/conf/catalina.properties", PROPERTIES)?;
    let application_place = application.display().to_string();
    let text = SERVER.configure(
        setup,
        context,
        &base,
        application_place,
        &configure(setup, context, &application),
    )?;
    let configuration = context.write("tomcat/conf/server.xml", &text)?;
    Ok(Service {
        command: command(setup, &base),
        configuration: vec![configuration, properties],
        version: words(&[JAVA, "-cp", CATALINA, "org.apache.catalina.util.ServerInfo"]),
        ..SERVER.running_in(&base, setup, context, &text)
    })
}

fn command(setup: &Setup, base: &Path) -> Vec<String> {
    let mut command = setup.java.command(&[], base);
    let (base, database): (_, &str) = (base.display(), setup.database.into());
    command.extend([
        "-Dorg.apache.catalina.startup.EXIT_ON_INIT_FAILURE=true".into(),
        format!("-Dcatalina.home={base}"),
        format!("-Dcatalina.base={base}"),
        format!("-Dtrade.database={database}"),
    ]);
    let classes = [&CLASSES[..], &[setup.driver()]].concat().join(":");
    command.extend(words(&[
        "-cp",
        &classes,
        "org.apache.catalina.startup.Bootstrap",
        "start",
    ]));
    command
}

/// The configuration: one connector, one application, one pool. All threads and database
/// connections are made at the start, so that their creation is not measured. The backlog is
/// the largest possible, so that `net.core.somaxconn` is the limit.
fn configure(setup: &Setup, context: &WorkloadContext, application: &Path) -> String {
    let web = context.at(PORT);
    let (database, driver) = (setup.database_url(context), setup.driver_class());
    let application = application.display();
    let threads = setup.threads();
    let (pool, connections) = (setup.pool(), setup.connections());
    format!(
            "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<Server port=\"-1\">
  <Service name=\"trade\">
    <Connector address=\"{ip}\" port=\"{port}\" acceptCount=\"65535\" maxConnections=\"{connections}\"
        maxThreads=\"{threads}\" minSpareThreads=\"{threads}\" maxKeepAliveRequests=\"-1\"
        connectionTimeout=\"300000\" keepAliveTimeout=\"300000\"/>
    <Engine name=\"trade\" defaultHost=\"trade\">
      <Host name=\"trade\" appBase=\"none\" autoDeploy=\"false\" deployOnStartup=\"false\">
        <Context path=\"\" docBase=\"{application}\" containerSciFilter=\".*\">
          <JarScanner scanClassPath=\"false\" scanManifest=\"false\"/>
          <Manager pathname=\"\"/>
          <Resource name=\"jdbc/trade\" type=\"javax.sql.DataSource\"
              factory=\"org.apache.tomcat.jdbc.pool.DataSourceFactory\"
              driverClassName=\"{driver}\" url=\"{database}\"
              username=\"{ACCOUNT}\" password=\"{ACCOUNT}\" defaultAutoCommit=\"false\"
              defaultTransactionIsolation=\"READ_COMMITTED\"
              initialSize=\"{pool}\" maxActive=\"{pool}\" maxIdle=\"{pool}\" minIdle=\"{pool}\"/>
        </Context>
      </Host>
    </Engine>
  </Service>
</Server>
",
            ip = web.ip(),
            port = web.port(),
        )
}

/// All classes are on the class path.
const PROPERTIES: &str = "\
common.loader=
server.loader=
shared.loader=
tomcat.util.scan.StandardJarScanFilter.jarsToSkip=*
";
