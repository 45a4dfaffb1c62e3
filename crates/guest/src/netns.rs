//! The network between server and clients: two namespaces joined by a pair of virtual devices (veth), or, where clients are
//! elsewhere, the network device that leads to them.
//!
//! The namespaces have no names; they live as long as a descriptor or a process holds them, so that
//! nothing is left behind on a live host, however the agent ends.

use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use workload::context::{SOURCES, SOURCES_PREFIX, command};

/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The clients' address.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// The two ends of the network between them, where both are here.
pub(crate) const SERVER_END: &str = "server";
pub(crate) const CLIENT_END: &str = "client";

/// Hardware address of the device by which clients elsewhere reach a guest.
const SERVER_DEVICE: &str = "52:54:00:77:00:01";

/// The same of the clients' own guest.
const CLIENT_DEVICE: &str = "52:54:00:77:00:02";

/// Time for that device to appear after its driver is loaded.
const DEVICE_PATIENCE: Duration = Duration::from_secs(10);

/// Two namespaces, joined.
#[derive(Debug)]
pub struct NetnsPair {
    /// Where services listen.
    pub server: Netns,
    /// Where clients are; who is elsewhere is reached from the servers' own.
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
        let pair =
            format!("link add {CLIENT_END} type veth peer name {SERVER_END} netns {server}\n");
        netns.client.ip(&(pair + &client_side(CLIENT_END)))?;
        netns.server.ip(&server_side(SERVER_END))?;
        Ok(netns)
    }

    /// This process's own namespace for the servers; their clients come by a network card.
    pub(crate) fn of_servers() -> Result<Self> {
        let netns = Self {
            server: Netns::own(),
            client: Netns::own(),
        };
        let device = wait_for_device(SERVER_DEVICE)?;
        netns.server.ip(&server_side(&device))?;
        Ok(netns)
    }
}

impl NetnsPair {
    /// This process's own namespace, whose cards have their addresses already.
    pub(crate) fn of_box() -> Self {
        Self {
            server: Netns::own(),
            client: Netns::own(),
        }
    }
}

fn server_side(device: &str) -> String {
    format!(
        "link set lo up\n\
         addr add {SERVER}/24 dev {device}\n\
         link set {device} up\n\
         route add {SOURCES}/{SOURCES_PREFIX} via {CLIENT}\n"
    )
}

/// Makes the network card of the clients' own guest the clients' side.
pub(crate) fn become_clients() -> Result<()> {
    let device = wait_for_device(CLIENT_DEVICE)?;
    Netns::own().ip(&client_side(&device))
}

/// What makes a device the clients' in the namespace that it is in.
pub(crate) fn client_side(device: &str) -> String {
    format!(
        "link set lo up\n\
         addr add {CLIENT}/24 dev {device}\n\
         link set {device} up\n\
         route add local {SOURCES}/{SOURCES_PREFIX} dev lo\n"
    )
}

/// The name of the network device that has a hardware address.
fn wait_for_device(address: &str) -> Result<String> {
    let until = Instant::now() + DEVICE_PATIENCE;
    loop {
        let devices = fs::read_dir("/sys/class/net").context("list network devices")?;
        let has_it = |device: &fs::DirEntry| {
            let own = fs::read_to_string(device.path().join("address"));
            own.is_ok_and(|own| own.trim() == address)
        };
        if let Some(device) = devices.flatten().find(has_it) {
            return Ok(device.file_name().to_string_lossy().into_owned());
        }
        if Instant::now() >= until {
            bail!(
                "no network device of address {address} (is virtio_net in the kernel or its modules?)"
            );
        }
        thread::sleep(Duration::from_millis(20));
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

    /// Whether it is the one that this process is in.
    pub(crate) fn is_own(&self) -> bool {
        self.0.is_none()
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

    /// Runs a program of iproute2 inside; what it prints.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let run = || {
            let mut command = command(program);
            command.args(arguments).stdin(Stdio::null()).output()
        };
        let output = self
            .within(run)?
            .with_context(|| format!("run {program} (is iproute2 installed?)"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let words: Vec<_> = why.split_whitespace().collect();
            bail!("{program} {}: {}", arguments.join(" "), words.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into())
    }

    /// Has ip(8) do a list of commands inside.
    pub(crate) fn ip(&self, batch: &str) -> Result<()> {
        let output = self
            .within(|| run_ip(batch))?
            .context("run ip (is iproute2 installed?)")?;
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
