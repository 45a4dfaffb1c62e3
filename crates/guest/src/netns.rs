//! The network between server and clients: two namespaces joined by a pair of virtual devices (veth), or the network
//! device that leads to remote clients.
//!
//! The namespaces have no names; they exist as long as a descriptor or a process holds them, so nothing is left on a
//! live host, however the agent ends.

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

use crate::proc::text_of;

/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The clients' address.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Names of the two virtual devices.
pub(crate) const SERVER_END: &str = "server";
pub(crate) const CLIENT_END: &str = "client";

/// Hardware address of the device through which remote clients reach a guest.
const SERVER_DEVICE: &str = "52:54:00:77:00:01";

/// Hardware address of the device of a guest that has the clients.
const CLIENT_DEVICE: &str = "52:54:00:77:00:02";

/// Time for such a device to appear after its driver is loaded.
const DEVICE_LIMIT: Duration = Duration::from_secs(10);

/// The namespaces of server and clients.
#[derive(Debug)]
pub struct NetnsPair {
    /// Where services listen.
    pub server: Netns,
    /// Where local clients run; remote ones are reached from the same namespace as the server's.
    pub client: Netns,
}

/// A network namespace; without a descriptor, that of this process.
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

    /// This process's namespace, whose network cards have their addresses already.
    pub(crate) fn current() -> Self {
        Self {
            server: Netns::current(),
            client: Netns::current(),
        }
    }

    /// The same, after its network card has got the server's address.
    pub(crate) fn for_servers() -> Result<Self> {
        let netns = Self::current();
        let device = wait_for_device(SERVER_DEVICE)?;
        netns.server.ip(&server_side(&device))?;
        Ok(netns)
    }
}

/// Commands of ip(8) that make a device the server's.
fn server_side(device: &str) -> String {
    format!(
        "link set lo up\n\
         addr add {SERVER}/24 dev {device}\n\
         link set {device} up\n\
         route add {SOURCES}/{SOURCES_PREFIX} via {CLIENT}\n"
    )
}

/// Makes this guest the clients' side, through its network card.
pub(crate) fn become_clients() -> Result<()> {
    let device = wait_for_device(CLIENT_DEVICE)?;
    Netns::current().ip(&client_side(&device))
}

/// Commands of ip(8) that make a device the clients'.
pub(crate) fn client_side(device: &str) -> String {
    format!(
        "link set lo up\n\
         addr add {CLIENT}/24 dev {device}\n\
         link set {device} up\n\
         route add local {SOURCES}/{SOURCES_PREFIX} dev lo\n"
    )
}

/// Waits for the network device with this hardware address; returns its name.
fn wait_for_device(address: &str) -> Result<String> {
    let until = Instant::now() + DEVICE_LIMIT;
    loop {
        let devices = fs::read_dir("/sys/class/net").context("list network devices")?;
        let has_address =
            |device: &fs::DirEntry| text_of(device.path().join("address")).trim() == address;
        if let Some(device) = devices.flatten().find(has_address) {
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

    /// Whether it is that of this process.
    pub(crate) fn is_current(&self) -> bool {
        self.0.is_none()
    }

    /// That of this process.
    pub fn current() -> Self {
        Self(None)
    }

    /// Moves the calling thread into the namespace; threads and processes that it starts begin there.
    ///
    /// Makes one system call only, so it may be called between fork and exec.
    pub fn enter(&self) -> rustix::io::Result<()> {
        match &self.0 {
            Some(file) => move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)),
            None => Ok(()),
        }
    }

    /// Another handle of the same namespace.
    pub fn try_clone(&self) -> Result<Self> {
        let file = self.0.as_ref().map(File::try_clone).transpose();
        Ok(Self(file.context("hold a network namespace")?))
    }

    /// Does `work` on a thread in the namespace.
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

    /// Runs a program of iproute2 in the namespace; returns its output.
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

    /// Has ip(8) execute a list of commands in the namespace.
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
