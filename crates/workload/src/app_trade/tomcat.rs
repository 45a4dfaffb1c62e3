//! Tomcat with bakeoff's base directory and a single application, without archive scans.
//!
//! The source of the application is in `images/app`. The image recipe `app` compiles it. Otherwise,
//! as on a live host, it is compiled here.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::app_trade::Jit;
use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::database::server::{ACCOUNT, Server, as_user, own_dir};
use crate::probe::Probe;
use crate::service::{Service, words};
use crate::tool::Tool;

/// The name of its service.
pub(super) const NAME: &str = "tomcat";

/// Port; 80 would need root.
pub(super) const PORT: u16 = 8080;

/// Packages that it needs beside the database.
pub(super) const PACKAGES: [&str; 3] = [
    "default-jre-headless",
    "libmariadb-java",
    "tomcat10-common", // brings libtomcat10-java, and that the compiler
];

/// The application compiled by the image recipe.
const BUILT: &str = "/usr/share/bakeoff/trade";

/// The application's source files.
const SOURCES: [(&str, &str); 5] = [
    (
        "WEB-INF/web.xml",
        include_str!("../../../../images/app/web.xml"),
    ),
    (
        "WEB-INF/src/Broker.java",
        include_str!("../../../../images/app/Broker.java"),
    ),
    (
        "WEB-INF/src/Page.java",
        include_str!("../../../../images/app/Page.java"),
    ),
    (
        "WEB-INF/src/Refused.java",
        include_str!("../../../../images/app/Refused.java"),
    ),
    (
        "WEB-INF/src/Trade.java",
        include_str!("../../../../images/app/Trade.java"),
    ),
];

/// Debian's default Java.
const JAVA: &str = "/usr/lib/jvm/default-java/bin/java";

/// Tomcat's compiler, which is in a separate archive in Debian 13. Java ignores missing archives.
const COMPILER: [&str; 2] = [
    "/usr/share/java/eclipse-jdt-core.jar",
    "/usr/share/java/eclipse-jdt-core-compiler-batch.jar",
];
const SERVLETS: &str = "/usr/share/tomcat10/lib/servlet-api.jar";
const CATALINA: &str = "/usr/share/tomcat10/lib/catalina.jar";

/// The required parts of Tomcat, and the database driver.
const CLASSES: [&str; 13] = [
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
    "/usr/share/java/mariadb-java-client.jar",
];

/// Time limit of the start, under emulation.
const PATIENCE: Duration = Duration::from_secs(300);

/// Time limit of compiling on a slow host.
const COMPILING: Duration = Duration::from_secs(300);

/// Largest number of worker threads; further requests wait in Tomcat.
const THREADS: u32 = 200;

/// Largest number of database connections, below the limit of `MariaDB`.
const POOL: u32 = 50;

/// Room for the probe and for connections that are still closing.
const SPARE: u32 = 8;

/// A Tomcat to set up.
pub(super) struct Tomcat {
    /// Number of connections at once.
    pub(super) clients: u32,
    pub(super) heap_bytes: u64,
    pub(super) jit: Jit,
}

impl Tomcat {
    /// Writes the base directory, and compiles the application if the image has not.
    pub(super) fn service(&self, context: &WorkloadContext) -> Result<Service> {
        find_parts()?;
        let application = application(context)?;
        let base = own_dir(context, "tomcat")?;
        context.make_dir("tomcat/conf")?;
        let properties = context.write("tomcat/conf/catalina.properties", PROPERTIES)?;
        let target = Target {
            service: NAME,
            address: context.at(PORT),
            dir: &base,
            places: vec![
                ("{application}", application.display().to_string()),
                ("{database}", database_url(context)),
            ],
        };
        let server = config::render(
            &context.config,
            &target,
            &self.configure(context, &application),
        )?;
        let server = context.write("tomcat/conf/server.xml", server)?;
        Ok(Service {
            name: NAME.into(),
            command: self.command(&base),
            logs: Vec::new(),
            configuration: vec![server, properties],
            probe: Probe::Http {
                server: context.at(PORT),
                path: "/up".into(),
                body: b"up\n".as_slice().into(),
            },
            patience: PATIENCE,
            version: words(&[JAVA, "-cp", CATALINA, "org.apache.catalina.util.ServerInfo"]),
        })
    }

    /// The whole heap is allocated and touched at the start, so that trials have no page faults of
    /// a growing heap.
    fn command(&self, base: &Path) -> Vec<String> {
        let base = base.display();
        // Methods are compiled after ten calls, by the calling thread. So the progress of
        // compilation depends only on the number of requests, and not on the scheduling of the
        // compiler.
        let jit: &[&str] = match self.jit {
            Jit::Full => &[],
            Jit::Quick => &[
                "-XX:TieredStopAtLevel=1",
                "-XX:CompileThresholdScaling=0.05",
                "-XX:-BackgroundCompilation",
            ],
        };
        let mut command = as_user(&[&[JAVA], jit].concat());
        let heap_kib = self.heap_bytes >> 10;
        command.extend([
            format!("-Xms{heap_kib}k"),
            format!("-Xmx{heap_kib}k"),
            "-XX:+AlwaysPreTouch".into(),
            // Stack traces must fit in the last lines of a log.
            "-XX:MaxJavaStackTraceDepth=3".into(),
            "-Dorg.apache.catalina.startup.EXIT_ON_INIT_FAILURE=true".into(),
            // No statistics in a mapped file.
            "-XX:-UsePerfData".into(),
            // Session ids must not wait for entropy.
            "-Djava.security.egd=file:/dev/urandom".into(),
            "-Djava.net.preferIPv4Stack=true".into(),
            format!("-Djava.io.tmpdir={base}"),
            format!("-Dcatalina.home={base}"),
            format!("-Dcatalina.base={base}"),
        ]);
        let classes = CLASSES.join(":");
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
    fn configure(&self, context: &WorkloadContext, application: &Path) -> String {
        let (web, database) = (context.at(PORT), database_url(context));
        let application = application.display();
        let threads = self.clients.min(THREADS) + 1;
        let (pool, connections) = (self.clients.min(POOL), self.clients + SPARE);
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
              driverClassName=\"org.mariadb.jdbc.Driver\" url=\"{database}\"
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
}

/// JDBC URL of the database.
fn database_url(context: &WorkloadContext) -> String {
    format!(
        "jdbc:mariadb://{}/{ACCOUNT}",
        Server::Mariadb.address(context)
    )
}

/// All classes are on the class path.
const PROPERTIES: &str = "\
common.loader=
server.loader=
shared.loader=
tomcat.util.scan.StandardJarScanFilter.jarsToSkip=*
";

/// Checks that all parts are installed. Java would report a missing one with many exceptions.
fn find_parts() -> Result<()> {
    let missing = CLASSES
        .iter()
        .chain([&JAVA])
        .find(|part| !Path::new(part).exists());
    if let Some(part) = missing {
        let packages = PACKAGES.join(" ");
        bail!(
            "part of Tomcat not found: {part} (install {packages}, or take image recipe \"app\")"
        );
    }
    Ok(())
}

/// Directory of the compiled application: that of the image, if it has the same source.
fn application(context: &WorkloadContext) -> Result<PathBuf> {
    let built = Path::new(BUILT);
    let is_same = |(name, text): &(&str, &str)| {
        fs::read(built.join(name)).is_ok_and(|bytes| bytes == text.as_bytes())
    };
    if SOURCES.iter().all(is_same) && built.join("WEB-INF/classes/trade/Trade.class").exists() {
        return Ok(built.into());
    }
    compile(context)
}

fn compile(context: &WorkloadContext) -> Result<PathBuf> {
    if !COMPILER.iter().any(|part| Path::new(part).exists()) {
        bail!(
            "no compiler for the application: {} (install libeclipse-jdt-core-java, or take image recipe \"app\")",
            COMPILER[0]
        );
    }
    let root = context.make_dir("trade")?;
    for dir in [
        "trade/WEB-INF",
        "trade/WEB-INF/src",
        "trade/WEB-INF/classes",
    ] {
        context.make_dir(dir)?;
    }
    for (name, text) in SOURCES {
        context.write(&format!("trade/{name}"), text)?;
    }
    let place = |name: &str| root.join(name).to_string_lossy().into_owned();
    let (source, classes) = (place("WEB-INF/src"), place("WEB-INF/classes"));
    let compiler = COMPILER.join(":");
    let command = [
        &[
            JAVA,
            "-cp",
            &compiler,
            "org.eclipse.jdt.internal.compiler.batch.Main",
        ][..],
        &[
            "-17",
            "-proc:none",
            "-cp",
            SERVLETS,
            "-d",
            &classes,
            &source,
        ],
    ];
    Tool::new(&command.concat(), COMPILING).set_up()?;
    Ok(root)
}
