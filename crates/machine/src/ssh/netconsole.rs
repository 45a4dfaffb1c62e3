//! The console of a box: its kernel sends each message as a packet (netconsole), which a thread writes to a file.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::console::LIMIT_BYTES;
use base::input::tree::Tree;

/// How often the thread checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Writes packets to a file, until it is dropped.
pub(crate) struct Netconsole {
    /// The port that it listens on.
    pub(crate) port: u16,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Netconsole {
    pub(crate) fn listen(path: &Path) -> Result<Self> {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).context("cannot listen for a console")?;
        let port = socket.local_addr()?.port();
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        let (dir, name) = Tree::around(path);
        let mut file = dir
            .append(name)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let thread = thread::Builder::new()
            .name("netconsole".into())
            .spawn(move || {
                let mut packet = [0; 4096];
                // Shortening a long console makes room again.
                let is_full =
                    |file: &File| file.metadata().is_ok_and(|file| file.len() > LIMIT_BYTES);
                while !ended.load(Ordering::Relaxed) && !is_full(&file) {
                    match socket.recv(&mut packet) {
                        Ok(length) => {
                            // An error cannot be reported from here.
                            let _ = file.write_all(&packet[..length]);
                        }
                        Err(why)
                            if matches!(
                                why.kind(),
                                ErrorKind::WouldBlock
                                    | ErrorKind::TimedOut
                                    | ErrorKind::Interrupted
                            ) => {}
                        Err(_) => return,
                    }
                }
            })?;
        Ok(Self {
            port,
            end,
            thread: Some(thread),
        })
    }
}

impl Drop for Netconsole {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Ignores a panic of the thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn packets_are_lines_of_the_console() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console.log");
        fs::write(&path, "").unwrap();
        let console = Netconsole::listen(&path).unwrap();
        let kernel = UdpSocket::bind("127.0.0.1:0").unwrap();
        for line in ["[    0.1] one\n", "[    0.2] two\n"] {
            kernel
                .send_to(line.as_bytes(), ("127.0.0.1", console.port))
                .unwrap();
        }
        while fs::read_to_string(&path).unwrap().lines().count() < 2 {
            thread::yield_now();
        }
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "[    0.1] one\n[    0.2] two\n"
        );
    }
}
