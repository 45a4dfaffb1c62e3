//! Where a workload plays: its directory, its addresses, its seed.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use plan::FileSystem;

use crate::config::ArmConfig;

/// The network of the clients' further addresses: 4094 of them, `SOURCES_PREFIX` bits long.
pub const SOURCES: Ipv4Addr = Ipv4Addr::new(10, 77, 16, 0);
/// Length of that network's prefix, in bits.
pub const SOURCES_PREFIX: u8 = 20;

/// Below the context's directory: files of the plan's own, by their names.
pub const FILES: &str = "files";

/// What a workload is given to play on. Nothing in it differs between arms but `config`, `env` and `file_system`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadContext {
    /// Empty directory for data, configuration, logs and sockets.
    pub dir: PathBuf,
    /// Address of the server's side.
    pub server: Ipv4Addr,
    /// Address of the clients' side.
    pub client: Ipv4Addr,
    /// CPUs online.
    pub cpus: u32,
    /// Seed of all data and schedules.
    pub seed: u64,
    /// The block device of a workload that asks for a disk to itself.
    pub disk: Option<PathBuf>,
    /// What the arm changes in the configuration of servers.
    pub config: ArmConfig,
    /// What the arm adds to the environment of programs.
    pub env: BTreeMap<String, String>,
    /// What the arm makes of that block device.
    pub file_system: FileSystem,
    /// The URL of the server, where it is one that was there before.
    pub target: Option<String>,
    /// Addresses of the server's side that connections go to in turn; with none, what the URL's host stands for, or `server`.
    pub addresses: Vec<IpAddr>,
    /// Whether the clients do with one thread fewer.
    pub one_fewer: bool,
}

impl WorkloadContext {
    /// A context for tests; nothing is there.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            dir: "/stage".into(),
            server: [10, 77, 0, 1].into(),
            client: [10, 77, 0, 2].into(),
            cpus: 2,
            seed: 7,
            disk: None,
            config: ArmConfig::default(),
            env: BTreeMap::new(),
            file_system: FileSystem::default(),
            target: None,
            addresses: Vec::new(),
            one_fewer: false,
        }
    }

    /// A context for clients alone.
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

    /// The same for a server that is not the workload's first: only changes that name it are meant for it.
    pub(crate) fn with_named_config(&self) -> Self {
        Self {
            config: self.config.named_only(),
            ..self.clone()
        }
    }

    /// Client threads where so many are asked for, or one for each CPU, and there are so many connections.
    pub(crate) fn client_threads(&self, asked: Option<u32>, connections: u32) -> u32 {
        let threads = asked.unwrap_or(self.cpus).min(connections);
        threads.saturating_sub(self.one_fewer.into()).max(1)
    }

    /// A port of the server's side.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::from((self.server, port))
    }

    /// The same port at the further addresses of the server's side.
    pub(crate) fn more_at(&self, port: u16) -> Vec<SocketAddr> {
        let more = self.addresses.iter().skip(1);
        more.map(|address| SocketAddr::from((*address, port)))
            .collect()
    }

    /// So many addresses of the clients' side beside `client`; each can be bound, and the server knows the way back.
    pub fn sources(&self, count: u32) -> Vec<IpAddr> {
        let first = u32::from(SOURCES) + 1;
        (first..first + count)
            .map(|bits| Ipv4Addr::from(bits).into())
            .collect()
    }

    /// Makes a directory that servers which drop their rights can still read.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        for place in [&self.dir, &dir] {
            fs::set_permissions(place, fs::Permissions::from_mode(0o755))
                .with_context(|| format!("open to all: {}", place.display()))?;
        }
        Ok(dir)
    }

    /// Writes a file that everybody may read, and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))
            .with_context(|| format!("open to all: {}", path.display()))?;
        Ok(path)
    }
}

/// A command with a known environment: the same in every guest, whatever started the agent.
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
