//! nginx of Debian with bakeoff's configuration, whose limits depend on the clients.

use anyhow::Result;

use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::service::{PATIENCE, Service, words};
use crate::web::SetUp;

pub(crate) const PROGRAM: &str = "/usr/sbin/nginx";
pub(crate) const MODULES: &str = "/usr/lib/nginx/modules";

/// Descriptors of a worker beside clients: listener, logs, event queue, served files.
const SPARE: u32 = 64;

/// Writes the configuration.
pub(crate) fn service(context: &WorkloadContext, set_up: SetUp) -> Result<Service> {
    let place = context.make_dir("nginx")?;
    let target = Target {
        service: "nginx",
        address: context.at(80),
        dir: &place,
        places: vec![("{root}", set_up.root.display().to_string())],
    };
    let text = config::render(&context.config, &target, &configure(context, &set_up))?;
    let configuration = context.write("nginx/nginx.conf", text)?;
    let (file, place) = (configuration.to_string_lossy(), place.to_string_lossy());
    let log = format!("{place}/error.log");
    Ok(Service {
        name: "nginx".into(),
        // Without -e, nginx opens the default log before it reads the configuration.
        command: words(&[PROGRAM, "-p", &place, "-c", &file, "-e", &log]),
        logs: vec![log.into()],
        configuration: vec![configuration],
        probe: set_up.probe,
        patience: PATIENCE,
        version: words(&[PROGRAM, "-v"]),
        start_failure: None,
        java: None,
    })
}

/// The configuration. A single worker may get all connections.
fn configure(context: &WorkloadContext, set_up: &SetUp) -> String {
    let place = context.dir.join("nginx");
    let (place, root) = (place.display(), set_up.root.display());
    let (cpus, extra) = (context.cpus, &set_up.extra);
    let address = context.at(80);
    let connections = set_up.connections + SPARE;
    let files = match context.config.nofile {
        Some(_) => String::new(),
        None => format!("worker_rlimit_nofile {};\n", 2 * connections),
    };
    // A time-out of zero disables keep-alive.
    let keep_alive = if set_up.keep_alive { 300 } else { 0 };
    // The largest backlog, so that net.core.somaxconn is the limit.
    format!(
        "\
daemon off;
user www-data;
worker_processes {cpus};
{files}pid {place}/nginx.pid;
error_log {place}/error.log warn;
events {{
    worker_connections {connections};
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
    use crate::probe::Probe;

    fn configuration(keep_alive: bool) -> String {
        configuration_in(&WorkloadContext::example(), keep_alive)
    }

    fn configuration_in(context: &WorkloadContext, keep_alive: bool) -> String {
        let set_up = SetUp {
            connections: 100,
            keep_alive,
            root: "/context/site".into(),
            programs: None,
            extra: "gzip on;".into(),
            probe: Probe::Program {
                command: Vec::new(),
            },
        };
        configure(context, &set_up)
    }

    #[test]
    fn an_arms_limit_of_open_files_is_not_raised() {
        let tuning = plan::Tuning {
            nofile: Some(64),
            ..plan::Tuning::default()
        };
        let context = WorkloadContext {
            config: config::ArmConfig::from_tuning(&tuning),
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
    fn additional_lines_are_in_the_http_block() {
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
