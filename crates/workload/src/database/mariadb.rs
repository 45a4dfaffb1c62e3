//! `MariaDB` with bakeoff's configuration.
//!
//! It uses `InnoDB`, the default, instead of 2004's `MyISAM`: each statement is a transaction.

use std::path::Path;

use anyhow::{Context, Result};

use crate::config::{self, Target};
use crate::context::WorkloadContext;
use crate::database::client;
use crate::database::server::{ACCOUNT, PATIENCE, Server, as_user, own_dir, set_up};
use crate::probe::Probe;
use crate::service::{Service, words};

const PROGRAM: &str = "/usr/sbin/mariadbd";

/// Statements for the system tables, without file extension: those of Debian 13 and of 12.
const SYSTEM: [&str; 2] = [
    "/usr/share/mariadb/mariadb_system_tables",
    "/usr/share/mysql/mysql_system_tables",
];

/// Makes system tables and the account, and writes the configuration.
pub(super) fn service(context: &WorkloadContext) -> Result<Service> {
    let dir = own_dir(context, "mariadb")?;
    let target = Target {
        service: Server::Mariadb.name(),
        address: Server::Mariadb.address(context),
        dir: &dir,
        places: Vec::new(),
    };
    let text = config::render(&context.config, &target, &configure(context))?;
    let configuration = context.write("mariadb.cnf", text)?;
    let defaults = format!("--defaults-file={}", configuration.display());
    set_up(
        &["/bin/sh", "-euc", &script()?, "sh", PROGRAM, &defaults],
        &dir,
    )?;
    Ok(Service {
        name: Server::Mariadb.name().into(),
        command: as_user(&[PROGRAM, &defaults]),
        logs: Vec::new(),
        configuration: vec![configuration],
        probe: Probe::Custom {
            server: Server::Mariadb.address(context),
            ask: |address| client::check_reachable(Server::Mariadb, address),
        },
        patience: PATIENCE,
        version: words(&[PROGRAM, "--no-defaults", "--version"]),
        start_failure: None,
        java: None,
    })
}

/// A script like `mariadb-install-db` without help texts and `sys` schema, which are nine tenths of
/// the statements. `mariadb-install-db` would also need a package of client programs.
fn script() -> Result<String> {
    let is_there = |system: &&str| Path::new(&format!("{system}.sql")).exists();
    let system = SYSTEM.into_iter().find(is_there).with_context(|| {
        format!(
            "MariaDB's system tables not found: {}.sql (install mariadb-server-core)",
            SYSTEM.join(".sql, ")
        )
    })?;
    Ok(format!(
        "\
{{
    printf 'create database mysql;\\nuse mysql;\\nset @auth_root_socket = null;\\n'
    cat {system}.sql {system}_data.sql
    printf \"flush privileges;\\ncreate user {ACCOUNT} identified by '{ACCOUNT}';\\n\"
    printf 'grant all on *.* to {ACCOUNT};\\ncreate database {ACCOUNT};\\n'
}} > set-up.sql
exec \"$@\" --bootstrap --enforce-storage-engine= < set-up.sql
"
    ))
}

/// The configuration. Log and buffer fit a small guest, whose memory also holds the data.
fn configure(context: &WorkloadContext) -> String {
    let place = context.dir.join("mariadb");
    let place = place.display();
    let address = Server::Mariadb.address(context);
    // A starting server removes all files of temporary tables from its tmpdir, so it needs a
    // separate one. O_DIRECT in memory works on new kernels only, and the use of io_uring depends
    // on the kernel: both are fixed, so that servers of all arms work in the same way.
    format!(
        "\
[mariadbd]
datadir = {place}
tmpdir = {place}
socket = {place}/mariadbd.sock
pid_file = {place}/mariadbd.pid
bind_address = {ip}
port = {port}
skip_name_resolve = on
character_set_server = latin1
collation_server = latin1_bin
max_connections = 100
max_allowed_packet = 16M
back_log = 65535
innodb_buffer_pool_size = 128M
innodb_log_file_size = 32M
innodb_flush_method = fsync
innodb_use_native_aio = off
innodb_buffer_pool_dump_at_shutdown = off
innodb_buffer_pool_load_at_startup = off
innodb_stats_auto_recalc = off
",
        ip = address.ip(),
        port = address.port(),
    )
}
