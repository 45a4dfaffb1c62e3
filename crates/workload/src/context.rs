//! The environment of a workload: directory, addresses, seed.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use plan::FileSystem;

use crate::config::ArmConfig;

/// Network of the clients' further 4094 addresses.
pub const SOURCES: Ipv4Addr = Ipv4Addr::new(10, 77, 16, 0);
/// Prefix length of `SOURCES`, in bits.
pub const SOURCES_PREFIX: u8 = 20;

/// Subdirectory of the context's directory with the host files of the plan.
pub const FILES: &str = "files";

/// The environment of a workload. Between arms only `config`, `env` and `file_system` differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadContext {
    /// Empty directory for data, configuration, logs and sockets.
    pub dir: PathBuf,
    /// Address of the server.
    pub server: Ipv4Addr,
    /// Address of the clients.
    pub client: Ipv4Addr,
    /// Number of online CPUs.
    pub cpus: u32,
    /// Seed of all data and schedules.
    pub seed: u64,
    /// Block device of a workload with a separate disk.
    pub disk: Option<PathBuf>,
    /// The arm's changes to the configuration of servers.
    pub config: ArmConfig,
    /// The arm's environment variables.
    pub env: BTreeMap<String, String>,
    /// The arm's file system for `disk`.
    pub file_system: FileSystem,
    /// URL of the server, if it is a remote system.
    pub target: Option<String>,
    /// Server addresses that connections use in turn; if empty, that of the URL, or `server`.
    pub addresses: Vec<IpAddr>,
    /// Whether clients use one thread fewer.
    pub one_fewer: bool,
}

impl WorkloadContext {
    /// A context for tests.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            server: [10, 77, 0, 1].into(),
            client: [10, 77, 0, 2].into(),
            ..Self::without_server("/stage".into(), 2, 7)
        }
    }

    /// A context for clients without a server.
    pub fn without_server(dir: PathBuf, cpus: u32, seed: u64) -> Self {
        Self {
            dir,
            server: Ipv4Addr::UNSPECIFIED,
            client: Ipv4Addr::UNSPECIFIED,
            cpus,
            seed,
            disk: None,
            config: ArmConfig::default(),
            env: BTreeMap::new(),
            file_system: FileSystem::default(),
            target: None,
            addresses: Vec::new(),
            one_fewer: false,
        }
    }

    /// A context for a workload's further servers, with only those changes that name a server.
    pub(crate) fn with_named_config(&self) -> Self {
        Self {
            config: self.config.named_only(),
            ..self.clone()
        }
    }

    /// Number of client threads: as configured, or one per CPU; at most one per connection.
    pub(crate) fn client_threads(&self, asked: Option<u32>, connections: u32) -> u32 {
        let threads = asked.unwrap_or(self.cpus).min(connections);
        threads.saturating_sub(self.one_fewer.into()).max(1)
    }

    /// A port at the server's address.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.server, port))
    }

    /// A port at the further addresses of the server.
    pub(crate) fn more_at(&self, port: u16) -> Vec<SocketAddr> {
        let more = self.addresses.iter().skip(1);
        more.map(|address| SocketAddr::from((*address, port)))
            .collect()
    }

    /// Further addresses of the clients. They can be bound, and the server has a route to them.
    pub fn sources(&self, count: u32) -> Vec<IpAddr> {
        let first = u32::from(SOURCES) + 1;
        (first..first + count)
            .map(|bits| Ipv4Addr::from(bits).into())
            .collect()
    }

    /// Makes a directory that unprivileged servers can read.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        for place in [&self.dir, &dir] {
            fs::set_permissions(place, fs::Permissions::from_mode(0o755))
                .with_context(|| format!("open to all: {}", place.display()))?;
        }
        Ok(dir)
    }

    /// Writes a world-readable file, and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
            .with_context(|| format!("open to all: {}", path.display()))?;
        Ok(path)
    }
}

/// A command with a fixed environment, independent of that of the agent.
pub fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env_clear().envs([
        (
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        ("HOME", "/root"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
    ]);
    command
}
