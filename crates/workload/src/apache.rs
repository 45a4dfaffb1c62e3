//! Apache with a configuration of its own: nothing of Debian's sites, its limits set by the clients.
//!
//! The population of workers is fixed from the start. Otherwise Apache forks and reaps by the second,
//! and a trial measures how far that had come when the window opened.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::probe::Probe;
use crate::service::{PATIENCE, Service, words};

/// How Apache spreads connections over processes and threads.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Mpm {
    /// Threads; idle connections hold none.
    Event,
    /// Threads; every connection holds one.
    Worker,
    /// Processes; every connection holds one.
    Prefork,
}

impl Mpm {
    /// Its name in plans and in module files.
    pub(crate) fn word(self) -> &'static str {
        self.into()
    }
}

/// What an Apache is to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apache {
    /// Its multi-processing module.
    pub mpm: Mpm,
    /// Connections that it must hold at once.
    pub connections: u32,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// The files it serves.
    pub root: PathBuf,
    /// A directory of CGI programs, served below `/cgi-bin/`.
    pub programs: Option<PathBuf>,
    /// Lines of the workload's.
    pub extra: String,
}

pub(crate) const PROGRAM: &str = "/usr/sbin/apache2";
pub(crate) const MODULES: &str = "/usr/lib/apache2/modules";

/// Room for the probe and for connections that are still closing.
const SPARE: u32 = 8;

/// Writes the configuration; the service answers once `probe` is content.
pub fn service(context: &WorkloadContext, apache: &Apache, probe: Probe) -> Result<Service> {
    context.make_dir("apache2")?;
    let target = Target {
        service: "apache2",
        address: context.at(80),
        dir: &context.dir.join("apache2"),
        places: vec![("{root}", apache.root.display().to_string())],
    };
    let text = config::settle(&context.config, &target, &configure(context, apache))?;
    let configuration = context.write("apache2/apache2.conf", text)?;
    let file = configuration.to_string_lossy();
    Ok(Service {
        name: "apache2".into(),
        command: words(&[PROGRAM, "-f", &file, "-DFOREGROUND"]),
        logs: vec![context.dir.join("apache2/error.log")],
        configuration: vec![configuration],
        probe,
        patience: PATIENCE,
        version: words(&[PROGRAM, "-v"]),
    })
}

/// The whole configuration. Access log off: at these rates it would measure the disk.
fn configure(context: &WorkloadContext, apache: &Apache) -> String {
    let mpm = apache.mpm.word();
    let place = context.dir.join("apache2");
    let (place, root) = (place.display(), apache.root.display());
    let keep_alive = if apache.keep_alive { "On" } else { "Off" };
    let address = context.at(80);
    let limits = limits(apache.mpm, apache.connections + SPARE);
    let programs = apache.programs.as_deref();
    let programs = programs.map_or_else(String::new, |dir| {
        configure_programs(context, apache.mpm, dir)
    });
    let extra = &apache.extra;
    // The backlog is asked for as large as can be, so that net.core.somaxconn alone decides.
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

/// CGI programs, each started anew for its request: by the worker itself, or, where workers are threads, by a process
/// of Apache's that does nothing else.
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

/// Workers for `wanted` connections, all of them started at once and never ended for idleness.
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
            // 25 threads a process is Apache's default, 64 the most without raising ThreadLimit.
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
