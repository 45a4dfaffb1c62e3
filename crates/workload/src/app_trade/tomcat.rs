//! Tomcat with a base directory of its own: nothing of Debian's sites, no archive searched, one application.
//!
//! The application is Java, and its source is in `images/app`. The image recipe `app` compiles it when the image is
//! built; where that has not been done, as on a live host, it is compiled here.

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

/// Where it listens: it is not root, so not on 80.
pub(super) const PORT: u16 = 8080;

/// What the image must have beside the database.
pub(super) const PACKAGES: [&str; 3] = [
    "default-jre-headless",
    "libmariadb-java",
    "tomcat10-common", // brings libtomcat10-java, and that the compiler
];

/// The application as the image recipe has compiled it.
const BUILT: &str = "/usr/share/bakeoff/trade";

/// The application's files below its directory.
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

/// Debian's own Java, whatever else is installed.
const JAVA: &str = "/usr/lib/jvm/default-java/bin/java";

/// The compiler that Tomcat brings for its own pages: Debian 13 has it in an archive of its own. Java passes over
/// what is not there.
const COMPILER: [&str; 2] = [
    "/usr/share/java/eclipse-jdt-core.jar",
    "/usr/share/java/eclipse-jdt-core-compiler-batch.jar",
];
const SERVLETS: &str = "/usr/share/tomcat10/lib/servlet-api.jar";
const CATALINA: &str = "/usr/share/tomcat10/lib/catalina.jar";

/// The parts of Tomcat that the application needs, and the database's driver.
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

/// Time that a start may take: a virtual machine that compiles itself under emulation.
const PATIENCE: Duration = Duration::from_secs(300);

/// Time that compiling may take on a slow host.
const COMPILING: Duration = Duration::from_secs(300);

/// Worker threads at the most; requests beyond wait in Tomcat.
const THREADS: u32 = 200;

/// Database connections at the most, below what `MariaDB` is configured for.
const POOL: u32 = 50;

/// Room for the probe and for connections that are still closing.
const SPARE: u32 = 8;

/// A Tomcat to set up.
pub(super) struct Tomcat {
    /// Connections that it must hold at once.
    pub(super) clients: u32,
    pub(super) heap_bytes: u64,
    pub(super) jit: Jit,
}

impl Tomcat {
    /// Writes the base directory, and compiles the application where no image has done so.
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
        let server = config::settle(
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

    /// The heap is taken whole at the start, so that no trial meets pages that it has not touched yet.
    fn command(&self, base: &Path) -> Vec<String> {
        let base = base.display();
        // What is quick to compile is compiled when it has run ten times, and by the thread that runs it: how far that has
        // come then hangs on the number of requests alone, and not on how a kernel shares a CPU with the compiler.
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
            // What Tomcat says of a failure must fit in the last lines of a log.
            "-XX:MaxJavaStackTraceDepth=3".into(),
            "-Dorg.apache.catalina.startup.EXIT_ON_INIT_FAILURE=true".into(),
            // Statistics of the virtual machine's own, on a file that is mapped.
            "-XX:-UsePerfData".into(),
            // Keys of sessions come from the kernel's pool without waiting for it.
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

    /// The whole configuration: one connector, one application, one pool. Threads and connections to the database are
    /// there from the start, so that a trial does not measure how far Tomcat had come with making them. The backlog is
    /// asked for as large as can be, so that `net.core.somaxconn` alone decides.
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

/// Where the application finds its database.
fn database_url(context: &WorkloadContext) -> String {
    format!(
        "jdbc:mariadb://{}/{ACCOUNT}",
        Server::Mariadb.address(context)
    )
}

/// All classes are on the path that the virtual machine is given.
const PROPERTIES: &str = "\
common.loader=
server.loader=
shared.loader=
tomcat.util.scan.StandardJarScanFilter.jarsToSkip=*
";

/// Says what is missing before Java does, in a page of exceptions.
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

/// The directory of the compiled application: the image's, if it was made of the same source.
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
