//! `PostgreSQL` with bakeoff's configuration.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::database::client;
use crate::database::server::{ACCOUNT, PATIENCE, Server, as_user, own_dir, set_up};
use crate::probe::Probe;
use crate::service::{Service, words};

/// Debian's directory of programs of each major version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Programs of the newest version with a server; versions with only clients have a directory too.
pub(super) fn programs() -> Result<PathBuf> {
    newest(Path::new(VERSIONS)).with_context(|| {
        format!(
            "no PostgreSQL server found: {VERSIONS}/*/bin (install the Debian package postgresql)"
        )
    })
}

fn newest(versions: &Path) -> Option<PathBuf> {
    let version = |name: &str| name.parse::<u32>().ok();
    let entries = fs::read_dir(versions).ok()?.flatten();
    let numbers = entries.filter_map(|entry| version(entry.file_name().to_str()?));
    let bins = numbers.map(|number| (number, versions.join(format!("{number}/bin"))));
    let with_server =
        bins.filter(|(_, bin)| bin.join("postgres").exists() && bin.join("initdb").exists());
    with_server.max().map(|(_, bin)| bin)
}

/// Makes the data directory and the account's database, and writes the configuration.
pub(super) fn service(context: &WorkloadContext) -> Result<Service> {
    let dir = own_dir(context, "postgresql")?;
    let data = dir.join("data");
    let place = data.to_str().context("a context whose path is text")?;
    let programs = programs()?;
    let programs = programs.display();
    let program = format!("{programs}/postgres");
    set_up(
        &[
            &format!("{programs}/initdb"),
            "--no-locale",
            "--encoding=UTF8",
            "--auth=trust",
            "--no-sync",
            "--no-instructions",
            "--username",
            ACCOUNT,
            place,
        ],
        &dir,
    )?;
    // The server makes the database in single-user mode.
    let create = format!("echo 'create database {ACCOUNT}' | \"$1\" --single -D \"$2\" postgres");
    set_up(&["/bin/sh", "-euc", &create, "sh", &program, place], &dir)?;
    let target = Target {
        service: Server::Postgresql.name(),
        address: Server::Postgresql.address(context),
        dir: &dir,
        places: Vec::new(),
    };
    let text = config::render(&context.config, &target, &configure(context))?;
    let configuration = context.write("postgresql.conf", text)?;
    let hosts = context.write("postgresql.hosts", "host all all all trust\n")?;
    let file = format!("config_file={}", configuration.display());
    let hba = format!("hba_file={}", hosts.display());
    Ok(Service {
        name: Server::Postgresql.name().into(),
        command: as_user(&[&program, "-D", place, "-c", &file, "-c", &hba]),
        logs: Vec::new(),
        configuration: vec![configuration, hosts],
        probe: Probe::Custom {
            server: Server::Postgresql.address(context),
            ask: |address| client::check_reachable(Server::Postgresql, address),
        },
        patience: PATIENCE,
        version: words(&[&program, "--version"]),
        start_failure: None,
        java: None,
    })
}

/// The configuration. Tables are vacuumed and analysed by the procedures, not by a timer. The log
/// is limited, because it is in memory.
fn configure(context: &WorkloadContext) -> String {
    let place = context.dir.join("postgresql");
    let place = place.display();
    let address = Server::Postgresql.address(context);
    format!(
        "\
listen_addresses = '{ip}'
port = {port}
unix_socket_directories = '{place}'
max_connections = 100
shared_buffers = 128MB
dynamic_shared_memory_type = mmap
max_wal_size = 128MB
min_wal_size = 32MB
autovacuum = off
logging_collector = off
log_checkpoints = off
",
        ip = address.ip(),
        port = address.port(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_with_a_server_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let put = |version: &str, programs: &[&str]| {
            let bin = dir.path().join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            for program in programs {
                fs::write(bin.join(program), "").unwrap();
            }
        };
        assert_eq!(newest(dir.path()), None);
        put("9", &["initdb", "postgres"]);
        put("15", &["initdb", "postgres", "psql"]);
        put("17", &["psql"]);
        put("common", &["initdb", "postgres"]);
        assert_eq!(newest(dir.path()), Some(dir.path().join("15/bin")));
        put("17", &["initdb", "postgres"]);
        assert_eq!(newest(dir.path()), Some(dir.path().join("17/bin")));
    }
}
