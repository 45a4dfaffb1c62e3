//! The port to the host: in a guest a virtio-serial device, found by its name; else what the agent was given.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use record::protocol::PORT;

/// Guest time for the device to appear after its driver is loaded.
const PATIENCE: Duration = Duration::from_secs(10);

/// Guest time for the host to say its first word.
const GREETING: Duration = Duration::from_secs(60);

const PACE: Duration = Duration::from_millis(20);

/// An open channel to the host; reading and writing do not hinder each other.
#[derive(Debug)]
pub(crate) struct Channel(File);

/// A channel whose host may not be there yet: reading then ends at once instead of waiting.
#[derive(Debug)]
pub(crate) struct UntilGreeted<'p> {
    channel: &'p mut Channel,
    until: Instant,
}

impl Channel {
    /// Waits for the port and opens it.
    pub(crate) fn open() -> Result<Self> {
        Self::open_port(PORT)
    }

    /// Waits for a port of that name and opens it.
    pub(crate) fn open_port(name: &str) -> Result<Self> {
        let patience_ends = Instant::now() + PATIENCE;
        loop {
            match Self::open_port_now(name) {
                Ok(port) => return Ok(port),
                Err(why) if Instant::now() >= patience_ends => return Err(why),
                Err(_) => thread::sleep(PACE),
            }
        }
    }

    /// Opens the port if it is there.
    pub(crate) fn open_now() -> Result<Self> {
        Self::open_port_now(PORT)
    }

    fn open_port_now(name: &str) -> Result<Self> {
        let device = find(name)?;
        let file = OpenOptions::new().read(true).write(true).open(&device);
        Ok(Self(
            file.with_context(|| format!("open {}", device.display()))?,
        ))
    }

    /// The socket that is this process's standard input.
    pub(crate) fn given() -> Result<Self> {
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
        Ok(Self(File::from(socket.context("take standard input")?)))
    }

    /// The socket that is this process's standard output: the way to the other agent of a trial.
    pub(crate) fn given_for_servers() -> Result<Self> {
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3);
        Ok(Self(File::from(socket.context("take standard output")?)))
    }

    /// A connection to the host.
    pub(crate) fn over(stream: TcpStream) -> Self {
        Self(File::from(OwnedFd::from(stream)))
    }

    pub(crate) fn try_clone(&self) -> Result<Self> {
        Ok(Self(self.0.try_clone().context("hold the port twice")?))
    }

    pub(crate) fn until_greeted(&mut self) -> UntilGreeted<'_> {
        UntilGreeted {
            channel: self,
            until: Instant::now() + GREETING,
        }
    }
}

fn find(wanted: &str) -> Result<PathBuf> {
    let entries = fs::read_dir("/sys/class/virtio-ports")
        .into_iter()
        .flatten()
        .flatten();
    let mut names = Vec::new();
    for entry in entries {
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == wanted {
            return Ok(PathBuf::from("/dev").join(entry.file_name()));
        }
        names.push(name.trim().to_string());
    }
    bail!(
        "no virtio port {wanted:?} among {}: {}",
        names.len(),
        names.join(", ")
    )
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Read for UntilGreeted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.channel.read(buffer)? {
                0 if Instant::now() < self.until => thread::sleep(PACE),
                length => return Ok(length),
            }
        }
    }
}
