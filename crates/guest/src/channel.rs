//! The channel to the host: in a guest a virtio-serial port, found by its name; elsewhere standard input.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Guest time for the device to appear after its driver is loaded.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// Guest time for the host to send its greeting.
const GREETING_LIMIT: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// An open channel to the host. Reads and writes do not block each other.
#[derive(Debug)]
pub(crate) struct Channel(File);

/// A reader of a channel whose host may not be there yet: until it is, a read of the device returns 0.
#[derive(Debug)]
pub(crate) struct UntilGreeted<'p> {
    channel: &'p mut Channel,
    until: Instant,
}

impl Channel {
    /// Waits for a port of that name and opens it.
    pub(crate) fn open_port(name: &str) -> Result<Self> {
        let deadline = Instant::now() + OPEN_LIMIT;
        loop {
            match Self::open_port_now(name) {
                Ok(port) => return Ok(port),
                Err(why) if Instant::now() >= deadline => return Err(why),
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Opens a port of that name, if there is one.
    pub(crate) fn open_port_now(name: &str) -> Result<Self> {
        let device = find(name)?;
        let file = OpenOptions::new().read(true).write(true).open(&device);
        Ok(Self(
            file.with_context(|| format!("open {}", device.display()))?,
        ))
    }

    /// The socket that is this process's standard input.
    pub(crate) fn from_stdin() -> Result<Self> {
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
        Ok(Self(File::from(socket.context("take standard input")?)))
    }

    /// The socket that is this process's standard output, which leads to the other agent of a trial.
    pub(crate) fn from_stdout() -> Result<Self> {
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3);
        Ok(Self(File::from(socket.context("take standard output")?)))
    }

    pub(crate) fn from_tcp(stream: TcpStream) -> Self {
        Self(File::from(OwnedFd::from(stream)))
    }

    pub(crate) fn try_clone(&self) -> Result<Self> {
        Ok(Self(self.0.try_clone().context("clone the channel")?))
    }

    pub(crate) fn until_greeted(&mut self) -> UntilGreeted<'_> {
        UntilGreeted {
            channel: self,
            until: Instant::now() + GREETING_LIMIT,
        }
    }
}

/// The device of the port of that name.
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
                0 if Instant::now() < self.until => thread::sleep(POLL_INTERVAL),
                length => return Ok(length),
            }
        }
    }
}
