//! Apache with bakeoff's configuration, whose limits depend on the clients.
//!
//! The number of workers is fixed. Otherwise Apache would start and end workers every second, and a
//! trial would depend on the number when the window opens.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::service::{PATIENCE, Service, words};
use crate::web::SetUp;

/// Multi-processing module: how Apache assigns connections to processes and threads.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Mpm {
    /// Threads; idle connections hold none.
    Event,
    /// Threads; every connection holds one.
    Worker,
    /// Processes; every connection holds one.
    Prefork,
}

impl Mpm {
    /// Name in plans and in module files.
    pub(crate) fn word(self) -> &'static str {
        self.into()
    }
}

pub(crate) const PROGRAM: &str = "/usr/sbin/apache2";
pub(crate) const MODULES: &str = "/usr/lib/apache2/modules";

/// Room for the probe and for connections that are still closing.
const SPARE: u32 = 8;

/// Writes the configuration.
pub(crate) fn service(context: &WorkloadContext, mpm: Mpm, set_up: SetUp) -> Result<Service> {
    context.make_dir("apache2")?;
    let target = Target {
        service: "apache2",
        address: context.at(80),
        dir: &context.dir.join("apache2"),
        places: vec![("{root}", set_up.root.display().to_string())],
    };
    let text = config::render(&context.config, &target, &configure(context, mpm, &set_up))?;
    let configuration = context.write("apache2/apache2.conf", text)?;
    let file = configuration.to_string_lossy();
    Ok(Service {
        name: "apache2".into(),
        command: words(&[PROGRAM, "-f", &file, "-DFOREGROUND"]),
        logs: vec![context.dir.join("apache2/error.log")],
        configuration: vec![configuration],
        probe: set_up.probe,
        patience: PATIENCE,
        version: words(&[PROGRAM, "-v"]),
        start_failure: None,
        java: None,
    })
}

/// The configuration. There is no access log, because writing it would dominate at these rates.
fn configure(context: &WorkloadContext, mpm: Mpm, set_up: &SetUp) -> String {
    let place = context.dir.join("apache2");
    let (place, root) = (place.display(), set_up.root.display());
    let keep_alive = if set_up.keep_alive { "On" } else { "Off" };
    let address = context.at(80);
    let limits = limits(mpm, set_up.connections + SPARE);
    let programs = set_up.programs.as_deref();
    let programs = programs.map_or_else(String::new, |dir| configure_programs(context, mpm, dir));
    let (mpm, extra) = (mpm.word(), &set_up.extra);
    // The largest backlog, so that net.core.somaxconn is the limit.
    format!(
        "\
LoadModule mpm_{mpm}_module {MODULES}/mod_mpm_{mpm}.so
LoadModule authz_core_module {MODULES}/mod_authz_core.so
LoadModule mime_module {MODULES}/mod_mime.so
ServerRoot {place}
DefaultRuntimeDir {place}
PidFile {place}/apache2.pid
ErrorLog {place}/error.log
LogLevel warn
ServerName bakeoff
User www-data
Group www-data
Listen {address}
ListenBackLog 65535
Timeout 300
KeepAlive {keep_alive}
KeepAliveTimeout 300
MaxKeepAliveRequests 0
MaxConnectionsPerChild 0
{limits}TypesConfig /dev/null
AddType text/html .html
AddType image/jpeg .jpg
DocumentRoot {root}
<Directory />
    AllowOverride None
    Options None
    Require all denied
</Directory>
<Directory {root}>
    Require all granted
</Directory>
{programs}{extra}"
    )
}

/// Configuration of CGI programs. They are started by the worker, or by a separate process if
/// workers are threads.
fn configure_programs(context: &WorkloadContext, mpm: Mpm, dir: &Path) -> String {
    let (place, dir) = (context.dir.join("apache2"), dir.display());
    let module = match mpm {
        Mpm::Prefork => format!("LoadModule cgi_module {MODULES}/mod_cgi.so\n"),
        Mpm::Event | Mpm::Worker => format!(
            "LoadModule cgid_module {MODULES}/mod_cgid.so\nScriptSock {}/cgid.sock\n",
            place.display()
        ),
    };
    format!(
        "\
LoadModule alias_module {MODULES}/mod_alias.so
{module}ScriptAlias /cgi-bin/ {dir}/
<Directory {dir}>
    Options +ExecCGI
    Require all granted
</Directory>
"
    )
}

/// Limits for a fixed number of workers, enough for `wanted` connections.
fn limits(mpm: Mpm, wanted: u32) -> String {
    match mpm {
        Mpm::Prefork => format!(
            "ServerLimit {wanted}\n\
             StartServers {wanted}\n\
             MinSpareServers 1\n\
             MaxSpareServers {wanted}\n\
             MaxRequestWorkers {wanted}\n"
        ),
        Mpm::Event | Mpm::Worker => {
            // 25 threads per process are Apache's default; 64 are the maximum without ThreadLimit.
            let threads = if wanted <= 2500 { 25 } else { 64 };
            let processes = wanted.div_ceil(threads);
            let workers = processes * threads;
            format!(
                "ServerLimit {processes}\n\
                 StartServers {processes}\n\
                 ThreadsPerChild {threads}\n\
                 MinSpareThreads 1\n\
                 MaxSpareThreads {workers}\n\
                 MaxRequestWorkers {workers}\n"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(mpm: Mpm, wanted: u32, expected: &Expect) {
        expected.assert_eq(&limits(mpm, wanted));
    }

    #[test]
    fn workers_suffice_for_the_connections() {
        check(
            Mpm::Event,
            68,
            &expect![[r#"
            ServerLimit 3
            StartServers 3
            ThreadsPerChild 25
            MinSpareThreads 1
            MaxSpareThreads 75
            MaxRequestWorkers 75
        "#]],
        );
        check(
            Mpm::Worker,
            10_008,
            &expect![[r#"
            ServerLimit 157
            StartServers 157
            ThreadsPerChild 64
            MinSpareThreads 1
            MaxSpareThreads 10048
            MaxRequestWorkers 10048
        "#]],
        );
        check(
            Mpm::Prefork,
            68,
            &expect![[r#"
            ServerLimit 68
            StartServers 68
            MinSpareServers 1
            MaxSpareServers 68
            MaxRequestWorkers 68
        "#]],
        );
    }
}
