//! `WildFly`, the heir of `JBoss`, with only the subsystems that the application needs.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::app_trade::application::{ENTERPRISE, files_in};
use crate::app_trade::java::JAVA;
use crate::app_trade::server::{self, AppServer, Setup};
use crate::context::WorkloadContext;
use crate::database::server::own_dir;
use crate::service::{Service, StartFailure};

const SERVER: AppServer = AppServer::Wildfly;

/// Where images and `tools/app-servers` have it.
pub(super) const HOME: &str = "/opt/wildfly-dist";

/// The launcher.
const LAUNCHER: &str = "/opt/wildfly-dist/jboss-modules.jar";

/// Archives that the application is compiled against.
const INTERFACES: &str = "/opt/wildfly-dist/modules/system/layers/base/jakarta";

/// Classes that an image has in the form in which Java keeps them in memory.
const CLASSES: &str = "/opt/wildfly-dist/classes.jsa";

/// Has the version in the name of its archive.
const PRODUCT: &str = "/opt/wildfly-dist/modules/system/layers/base/org/jboss/as/product/main";

const CONFIGURATION: &str = include_str!("../../../../images/app/servers/wildfly.xml");

/// The database's driver as a module.
const MODULE: &str = include_str!("../../../../images/app/servers/module.xml");

/// What `standalone.sh` opens for the server's modules.
const OPENED: [&str; 12] = [
    "--add-exports=java.desktop/sun.awt=ALL-UNNAMED",
    "--add-exports=java.naming/com.sun.jndi.ldap=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.security=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.management/javax.management=ALL-UNNAMED",
    "--add-opens=java.naming/javax.naming=ALL-UNNAMED",
];

/// Writes the base directory, and compiles the application if the image has not.
pub(super) fn service(setup: &Setup, context: &WorkloadContext) -> Result<Service> {
    server::find_parts(&[JAVA, LAUNCHER, setup.driver()], SERVER)?;
    let (application_place, text) = if let Some(war) = &setup.war {
        let place = format!("<fs-archive path=\"{}\"/>", war.display());
        (place, with_web_profile(CONFIGURATION))
    } else {
        let application = ENTERPRISE.compiled(context, &interfaces())?;
        let place = format!("<fs-exploded path=\"{}\"/>", application.display());
        (place, CONFIGURATION.into())
    };
    let base = own_dir(context, "wildfly")?;
    context.make_dir("wildfly/configuration")?;
    context.make_dir("wildfly/modules/bakeoff/database/main")?;
    let module = "wildfly/modules/bakeoff/database/main/module.xml";
    context.write(module, MODULE.replace("{driver}", setup.driver()))?;
    let text = SERVER.configure(setup, context, &base, application_place, &text)?;
    let configuration = context.write("wildfly/configuration/standalone.xml", &text)?;
    Ok(Service {
        command: command(setup, &base),
        configuration: vec![configuration],
        start_failure: Some(StartFailure {
            // The last: an exception is all that answers the probe.
            marks: &["WFLYSRV0026", "WFLYSRV0056", "WFLYSRV0055", "UT005023"],
            shown: &["ERROR", "WFLYCTL0186", "WFLYCTL0412", "Caused by:"],
        }),
        ..SERVER.running_in(&base, setup, &text)
    })
}

fn command(setup: &Setup, base: &Path) -> Vec<String> {
    let mut command = setup.java.command(&[], base);
    let base = base.display();
    command.extend(OPENED.map(String::from));
    command.extend([
        format!("-XX:SharedArchiveFile={CLASSES}"),
        // Messages quote the lines that it writes before it has read its configuration.
        "-Dorg.jboss.logmanager.nocolor=true".into(),
        "-Djava.util.logging.manager=org.jboss.logmanager.LogManager".into(),
        format!("-Dlogging.configuration=file:{HOME}/standalone/configuration/logging.properties"),
        format!("-Djboss.home.dir={HOME}"),
        format!("-Djboss.server.base.dir={base}"),
        format!("-Djboss.server.temp.dir={base}/tmp"),
        format!("-Dorg.jboss.boot.log.file={base}/boot.log"),
        "-jar".into(),
        LAUNCHER.into(),
        "-mp".into(),
        format!("{base}/modules:{HOME}/modules"),
        "org.jboss.as.standalone".into(),
        "--read-only-server-config=standalone.xml".into(),
    ]);
    command
}

/// A configuration with the further subsystems that a user's application may need, of those of the
/// Web Profile.
fn with_web_profile(configuration: &str) -> String {
    let extension = |module: &&str| format!("<extension module=\"{module}\"/>");
    let subsystem = |name: &&str| format!("<subsystem xmlns=\"urn:jboss:domain:{name}\"/>");
    let extensions: String = WEB_PROFILE_MODULES.iter().map(extension).collect();
    let subsystems: String = WEB_PROFILE.iter().map(subsystem).collect();
    configuration
        .replace("</extensions>", &format!("{extensions}</extensions>"))
        .replace("</profile>", &format!("{subsystems}</profile>"))
        .replace("<jsp-config/>", "<jsp-config/><websockets/>")
}

/// Modules of the subsystems in `WEB_PROFILE`.
const WEB_PROFILE_MODULES: [&str; 4] = [
    "org.jboss.as.jaxrs",
    "org.jboss.as.jsf",
    "org.jboss.as.weld",
    "org.wildfly.extension.bean-validation",
];

/// REST, Faces, CDI and validation.
const WEB_PROFILE: [&str; 4] = ["jaxrs:4.0", "jsf:1.1", "weld:5.0", "bean-validation:1.0"];

fn interfaces() -> Vec<PathBuf> {
    let parts = ["ejb", "persistence", "servlet"];
    let dirs = parts.map(|part| format!("{INTERFACES}/{part}/api/main"));
    dirs.iter()
        .flat_map(|dir| files_in(Path::new(dir), ""))
        .collect()
}

/// `WildFly 37.0.1.Final`.
pub(super) fn release() -> String {
    let start = "wildfly-feature-pack-product-conf-";
    let archive = files_in(Path::new(PRODUCT), start).pop();
    let name = archive.and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
    let version = name.as_deref().and_then(|name| name.strip_prefix(start));
    format!("WildFly {}", version.unwrap_or("of unknown version"))
}
