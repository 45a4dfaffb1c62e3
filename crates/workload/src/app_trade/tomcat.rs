//! Tomcat with bakeoff's base directory and a single application, without archive scans.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::app_trade::application::{COMPILER, SERVLET};
use crate::app_trade::java::JAVA;
use crate::app_trade::server::{self, AppServer, PORT, Setup};
use crate::context::WorkloadContext;
use crate::database::server::{ACCOUNT, own_dir};
use crate::service::{Service, StartFailure, words};

const SERVER: AppServer = AppServer::Tomcat;

const SERVLETS: &str = "/usr/share/tomcat10/lib/servlet-api.jar";
const CATALINA: &str = "/usr/share/tomcat10/lib/catalina.jar";

/// Parts that only an application of the user may need: pages in JSP with their compiler, and
/// web sockets. Java passes over what is not there.
const FURTHER_CLASSES: [&str; 9] = [
    "/usr/share/tomcat10/lib/el-api.jar",
    "/usr/share/tomcat10/lib/jasper-el.jar",
    "/usr/share/tomcat10/lib/jasper.jar",
    "/usr/share/tomcat10/lib/jsp-api.jar",
    "/usr/share/tomcat10/lib/tomcat-websocket.jar",
    "/usr/share/tomcat10/lib/websocket-api.jar",
    "/usr/share/tomcat10/lib/websocket-client-api.jar",
    COMPILER[0],
    COMPILER[1],
];

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
    let application = match &setup.war {
        Some(war) => war.clone(),
        None => SERVLET.compiled(context, &[PathBuf::from(SERVLETS)])?,
    };
    let base = own_dir(context, "tomcat")?;
    // Tomcat unpacks a WAR here.
    own_dir(context, "tomcat/webapps")?;
    context.make_dir("tomcat/conf")?;
    let properties = if setup.war.is_some() {
        context.write("tomcat/conf/web.xml", PAGES)?;
        CLASS_LOADERS.into()
    } else {
        format!("{CLASS_LOADERS}{WITHOUT_SCANS}")
    };
    let properties = context.write("tomcat/conf/catalina.properties", properties)?;
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
        start_failure: Some(StartFailure {
            marks: &[
                "startup failed due to previous errors",
                "threw load() exception",
            ],
            shown: &["SEVERE", "Exception: ", "Error: ", "Caused by:"],
        }),
        version: words(&[JAVA, "-cp", CATALINA, "org.apache.catalina.util.ServerInfo"]),
        ..SERVER.running_in(&base, setup, &text)
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
    let further: &[&str] = match setup.war {
        Some(_) => &FURTHER_CLASSES,
        None => &[],
    };
    let classes = [&CLASSES[..], &[setup.driver()], further].concat();
    let classes = classes.join(":");
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
    let (initializers, commits) = match setup.war {
        Some(_) => ("", "true"),
        None => (" containerSciFilter=\".*\"", "false"),
    };
    format!(
            "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<Server port=\"-1\">
  <Service name=\"trade\">
    <Connector address=\"{ip}\" port=\"{port}\" acceptCount=\"65535\" maxConnections=\"{connections}\"
        maxThreads=\"{threads}\" minSpareThreads=\"{threads}\" maxKeepAliveRequests=\"-1\"
        connectionTimeout=\"300000\" keepAliveTimeout=\"300000\"/>
    <Engine name=\"trade\" defaultHost=\"trade\">
      <Host name=\"trade\" appBase=\"webapps\" autoDeploy=\"false\" deployOnStartup=\"false\" createDirs=\"false\">
        <Context path=\"\" docBase=\"{application}\"{initializers}>
          <JarScanner scanClassPath=\"false\" scanManifest=\"false\"/>
          <Manager pathname=\"\"/>
          <Resource name=\"jdbc/trade\" type=\"javax.sql.DataSource\"
              factory=\"org.apache.tomcat.jdbc.pool.DataSourceFactory\"
              driverClassName=\"{driver}\" url=\"{database}\"
              username=\"{ACCOUNT}\" password=\"{ACCOUNT}\" defaultAutoCommit=\"{commits}\"
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
const CLASS_LOADERS: &str = "common.loader=\nserver.loader=\nshared.loader=\n";

/// The broker has no archives.
const WITHOUT_SCANS: &str = "tomcat.util.scan.StandardJarScanFilter.jarsToSkip=*\n";

/// What Tomcat adds to every application of a user: files, pages in JSP, and welcome files.
const PAGES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0">
  <servlet>
    <servlet-name>default</servlet-name>
    <servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class>
    <load-on-startup>1</load-on-startup>
  </servlet>
  <servlet>
    <servlet-name>jsp</servlet-name>
    <servlet-class>org.apache.jasper.servlet.JspServlet</servlet-class>
    <init-param><param-name>development</param-name><param-value>false</param-value></init-param>
    <init-param><param-name>fork</param-name><param-value>false</param-value></init-param>
    <load-on-startup>3</load-on-startup>
  </servlet>
  <servlet-mapping>
    <servlet-name>default</servlet-name>
    <url-pattern>/</url-pattern>
  </servlet-mapping>
  <servlet-mapping>
    <servlet-name>jsp</servlet-name>
    <url-pattern>*.jsp</url-pattern>
    <url-pattern>*.jspx</url-pattern>
  </servlet-mapping>
  <session-config><session-timeout>30</session-timeout></session-config>
  <mime-mapping><extension>css</extension><mime-type>text/css</mime-type></mime-mapping>
  <mime-mapping><extension>html</extension><mime-type>text/html</mime-type></mime-mapping>
  <mime-mapping><extension>js</extension><mime-type>text/javascript</mime-type></mime-mapping>
  <mime-mapping><extension>png</extension><mime-type>image/png</mime-type></mime-mapping>
  <mime-mapping><extension>svg</extension><mime-type>image/svg+xml</mime-type></mime-mapping>
  <welcome-file-list>
    <welcome-file>index.html</welcome-file>
    <welcome-file>index.jsp</welcome-file>
  </welcome-file-list>
</web-app>
"#;
