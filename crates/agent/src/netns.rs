//! The network between server and clients: two namespaces joined by a pair of virtual devices (veth).
//!
//! The namespaces have no names; they live as long as a descriptor or a process holds them, so that
//! nothing is left behind on a live host, however the agent ends.

use std::fs::File;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Output, Stdio};
use std::thread;

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use workload::context::{SOURCES, SOURCES_PREFIX, command};

/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The clients' address.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Two namespaces, joined.
#[derive(Debug)]
pub struct NetnsPair {
    /// Where services listen.
    pub server: Netns,
    /// Where clients are.
    pub client: Netns,
}

/// A network namespace; without a descriptor, the one that this process is in.
#[derive(Debug)]
pub struct Netns(Option<File>);

impl NetnsPair {
    /// Makes both namespaces and joins them.
    pub fn create() -> Result<Self> {
        let netns = Self {
            server: Netns::make().context("network namespace of the server")?,
            client: Netns::make().context("network namespace of the clients")?,
        };
        // `ip` takes a path for a namespace's name, and this process shows its descriptors as paths.
        let server = format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            netns.server.0.as_ref().map_or(-1, AsRawFd::as_raw_fd)
        );
        netns.client.ip(&format!(
            "link set lo up\n\
             link add client type veth peer name server netns {server}\n\
             addr add {CLIENT}/24 dev client\n\
             link set client up\n\
             route add local {SOURCES}/{SOURCES_PREFIX} dev lo\n"
        ))?;
        netns.server.ip(&format!(
            "link set lo up\n\
             addr add {SERVER}/24 dev server\n\
             link set server up\n\
             route add {SOURCES}/{SOURCES_PREFIX} via {CLIENT}\n"
        ))?;
        Ok(netns)
    }
}

impl Netns {
    #[expect(
        unsafe_code,
        reason = "rustix marks unshare for its file tables; only NEWNET is used"
    )]
    fn make() -> Result<Self> {
        let made = thread::spawn(|| -> Result<File> {
            // SAFETY: only the thread's network namespace changes; descriptors stay shared.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(File::open("/proc/thread-self/ns/net")?)
        });
        let made = made.join().expect("making a namespace does not panic")?;
        Ok(Self(Some(made)))
    }

    /// That of this process.
    pub fn own() -> Self {
        Self(None)
    }

    /// Moves the calling thread in; threads and processes that it starts begin there.
    ///
    /// One system call, so that it may stand between fork and exec.
    pub fn enter(&self) -> rustix::io::Result<()> {
        match &self.0 {
            Some(file) => move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)),
            None => Ok(()),
        }
    }

    /// Another hold on the same namespace.
    pub fn try_clone(&self) -> Result<Self> {
        let file = self.0.as_ref().map(File::try_clone).transpose();
        Ok(Self(file.context("hold a network namespace")?))
    }

    /// Does `work` on a thread inside.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter().context("enter a network namespace")?;
                Ok(work())
            });
            match inside.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Has ip(8) do a list of commands inside.
    fn ip(&self, batch: &str) -> Result<()> {
        let output = self
            .within(|| run_ip(batch))?
            .context("run ip (is iproute2 in the image?)")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("ip -batch ended with {}: {}", output.status, why.trim());
        }
        Ok(())
    }
}

fn run_ip(batch: &str) -> std::io::Result<Output> {
    let mut ip = command("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = ip.stdin.take().expect("stdin is piped");
    input.write_all(batch.as_bytes())?;
    drop(input);
    ip.wait_with_output()
}
