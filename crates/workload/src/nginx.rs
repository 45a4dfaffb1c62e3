//! nginx with a configuration of its own: what Debian ships, its limits set by the clients.

use std::path::PathBuf;

use anyhow::Result;

use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::probe::Probe;
use crate::service::{PATIENCE, Service, words};

/// What an nginx is to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nginx {
    /// Connections that it must hold at once.
    pub connections: u32,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// The files it serves.
    pub root: PathBuf,
    /// Directives of the workload's for all that is served.
    pub extra: String,
}

pub(crate) const PROGRAM: &str = "/usr/sbin/nginx";
pub(crate) const MODULES: &str = "/usr/lib/nginx/modules";

/// Descriptors of a worker that are not its clients': listener, logs, event queue, files served.
const SPARE: u32 = 64;

/// Writes the configuration; the service answers once `probe` is content.
pub fn service(context: &WorkloadContext, nginx: &Nginx, probe: Probe) -> Result<Service> {
    let place = context.make_dir("nginx")?;
    let target = Target {
        service: "nginx",
        address: context.at(80),
        dir: &place,
        places: vec![("{root}", nginx.root.display().to_string())],
    };
    let text = config::settle(&context.config, &target, &configure(context, nginx))?;
    let configuration = context.write("nginx/nginx.conf", text)?;
    let (file, place) = (configuration.to_string_lossy(), place.to_string_lossy());
    let log = format!("{place}/error.log");
    Ok(Service {
        name: "nginx".into(),
        // The log is named here too, or nginx opens the one compiled in before it reads a line.
        command: words(&[PROGRAM, "-p", &place, "-c", &file, "-e", &log]),
        logs: vec![log.into()],
        configuration: vec![configuration],
        probe,
        patience: PATIENCE,
        version: words(&[PROGRAM, "-v"]),
    })
}

/// The whole configuration. One worker may get all connections, so each has room for all.
fn configure(context: &WorkloadContext, nginx: &Nginx) -> String {
    let place = context.dir.join("nginx");
    let (place, root) = (place.display(), nginx.root.display());
    let (cpus, extra) = (context.cpus, &nginx.extra);
    let address = context.at(80);
    let seats = nginx.connections + SPARE;
    let files = match context.config.nofile {
        Some(_) => String::new(),
        None => format!("worker_rlimit_nofile {};\n", 2 * seats),
    };
    // nginx's word for a connection per request is a time-out of zero.
    let keep_alive = if nginx.keep_alive { 300 } else { 0 };
    // The backlog is asked for as large as can be, so that net.core.somaxconn alone decides.
    format!(
        "\
daemon off;
user www-data;
worker_processes {cpus};
{files}pid {place}/nginx.pid;
error_log {place}/error.log warn;
events {{
    worker_connections {seats};
}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout {keep_alive};
    keepalive_requests 1000000000;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    types {{
        text/html html;
        image/jpeg jpg;
    }}
    {extra}
    server {{
        listen {address} backlog=65535;
        server_name bakeoff;
        root {root};
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(keep_alive: bool) -> String {
        configuration_in(&WorkloadContext::example(), keep_alive)
    }

    fn configuration_in(context: &WorkloadContext, keep_alive: bool) -> String {
        let nginx = Nginx {
            connections: 100,
            keep_alive,
            root: "/context/site".into(),
            extra: "gzip on;".into(),
        };
        configure(context, &nginx)
    }

    #[test]
    fn an_arm_s_limit_of_open_files_is_not_raised() {
        let tuning = plan::Tuning {
            nofile: Some(64),
            ..plan::Tuning::default()
        };
        let context = WorkloadContext {
            config: config::ArmConfig::of(&tuning),
            ..WorkloadContext::example()
        };
        assert!(!configuration_in(&context, true).contains("worker_rlimit_nofile"));
    }

    #[test]
    fn one_worker_has_room_for_all_connections() {
        let text = configuration(true);
        assert!(text.contains("worker_connections 164;"));
        assert!(text.contains("worker_rlimit_nofile 328;"));
        assert!(text.contains("worker_processes 2;"));
    }

    #[test]
    fn what_the_workload_adds_stands_in_the_http_block() {
        let text = configuration(true);
        let added = text.find("gzip on;").unwrap();
        assert!(text.find("http {").unwrap() < added && added < text.find("server {").unwrap());
    }

    #[test]
    fn a_connection_per_request_is_a_time_out_of_zero() {
        assert!(configuration(false).contains("keepalive_timeout 0;"));
        assert!(configuration(true).contains("keepalive_timeout 300;"));
    }
}
