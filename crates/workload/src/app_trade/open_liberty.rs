//! Open Liberty, the heir of `WebSphere`, with only the features that the application needs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::app_trade::application::{ENTERPRISE, files_in};
use crate::app_trade::java::JAVA;
use crate::app_trade::server::{self, AppServer, Setup};
use crate::context::WorkloadContext;
use crate::database::server::{own_dir, set_up};
use crate::service::{Service, StartFailure};

const SERVER: AppServer = AppServer::OpenLiberty;

/// Where images and `tools/app-servers` have it.
pub(super) const HOME: &str = "/opt/openliberty-runtime";

/// The launcher.
const LAUNCHER: &str = "/opt/openliberty-runtime/bin/tools/ws-server.jar";

/// Archives that the application is compiled against.
const INTERFACES: &str = "/opt/openliberty-runtime/dev/api/spec";

/// Classes that an image has in the form in which Java keeps them in memory.
const CLASSES: &str = "/opt/openliberty-runtime/classes.jsa";

/// The server's cache of resolved features. An image has it from a start during its build. Without it
/// the server resolves them, in a quarter of its start.
const CACHE: &str = "/opt/openliberty-runtime/workarea";

/// Properties of the `OSGi` framework. Without them it saves its state 30 s after a change, with 34 ms
/// of CPU time natively, which may fall into the window.
const PROPERTIES: &str = "eclipse.stateSaveDelayInterval=2147483647\n";

/// Has the version.
const PRODUCT: &str = "/opt/openliberty-runtime/lib/versions/openliberty.properties";

const CONFIGURATION: &str = include_str!("../../../../images/app/servers/open-liberty.xml");

/// What the `server` script opens.
const OPENED: [&str; 6] = [
    "--add-exports=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.naming/javax.naming.spi=ALL-UNNAMED",
];

/// Writes the server's directory, and compiles the application if the image has not.
pub(super) fn service(setup: &Setup, context: &WorkloadContext) -> Result<Service> {
    server::find_parts(&[JAVA, LAUNCHER, setup.driver()], SERVER)?;
    let (application, text) = match &setup.war {
        Some(war) => (
            war.clone(),
            CONFIGURATION.replace("servlet-6.0", "webProfile-10.0"),
        ),
        None => (
            ENTERPRISE.compiled(context, &interfaces())?,
            CONFIGURATION.into(),
        ),
    };
    let base = own_dir(context, "open-liberty")?;
    if Path::new(CACHE).exists() {
        let copy = "mkdir -p output/trade && cp -r \"$0\" output/trade/workarea";
        set_up(&["/bin/sh", "-euc", copy, CACHE], &base)?;
    }
    context.make_dir("open-liberty-user/servers/trade")?;
    let application_place = application.display().to_string();
    let text = SERVER.configure(setup, context, &base, application_place, &text)?;
    let configuration = context.write("open-liberty-user/servers/trade/server.xml", &text)?;
    context.write(
        "open-liberty-user/servers/trade/bootstrap.properties",
        PROPERTIES,
    )?;
    Ok(Service {
        command: command(setup, context, &base),
        configuration: vec![configuration],
        start_failure: Some(StartFailure {
            marks: &[
                "CWWKE0054E", // no configuration
                "CWWKF0001E", // a feature that is not installed
                "CWWKF0042E",
                "CWWKG0014E", // not XML
                "CWWKO0221E", // the port is taken
                "CWWKZ0002E", // the application does not start
                "CWWKZ0004E",
                "CWWKZ0014W", // there is no application
                "SRVE0276E",  // a servlet does not start
            ],
            shown: &[" E ", "CWWKZ0014W", "Caused by:"],
        }),
        ..SERVER.running_in(&base, setup, &text)
    })
}

fn command(setup: &Setup, context: &WorkloadContext, base: &Path) -> Vec<String> {
    let user = format!(
        "WLP_USER_DIR={}",
        context.dir.join("open-liberty-user").display()
    );
    let base_text = base.display();
    let output = format!("WLP_OUTPUT_DIR={base_text}/output");
    let logs = format!("LOG_DIR={base_text}/logs");
    let mut command = setup
        .java
        .command(&["/usr/bin/env", &user, &output, &logs], base);
    command.extend(OPENED.map(String::from));
    command.extend([
        format!("-XX:SharedArchiveFile={CLASSES}"),
        "-jar".into(),
        LAUNCHER.into(),
        "trade".into(),
    ]);
    command
}

fn interfaces() -> Vec<PathBuf> {
    let parts = ["enterpriseBeans.4.0", "persistence.3.1", "servlet.6.0"];
    let starts = parts.map(|part| format!("io.openliberty.jakarta.{part}_"));
    let dir = Path::new(INTERFACES);
    starts
        .iter()
        .flat_map(|start| files_in(dir, start))
        .collect()
}

/// `Open Liberty 25.0.0.9`.
pub(super) fn release() -> String {
    let text = fs::read_to_string(PRODUCT).unwrap_or_default();
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("com.ibm.websphere.productVersion="));
    format!("Open Liberty {}", version.unwrap_or("of unknown version"))
}
