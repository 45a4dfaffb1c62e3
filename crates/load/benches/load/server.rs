//! nginx as a single process on its own CPU, with temporary files.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::child::{SERVER_CPU, bound};

/// Body lengths of the two files.
pub(crate) const TINY_BYTES: usize = 78;
pub(crate) const IMAGE_BYTES: usize = 25_000;

const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Server {
    nginx: Child,
    janitor: Child,
    folder: TempDir,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let janitor = janitor(folder.path())?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let place = folder.path();
        fs::write(place.join("tiny"), body(TINY_BYTES))?;
        fs::write(place.join("image"), body(IMAGE_BYTES))?;
        fs::write(place.join("nginx.conf"), config(place, address))?;
        let words = ["nginx", "-p", ".", "-c", "nginx.conf"].map(str::to_owned);
        let nginx = bound(SERVER_CPU, &words)
            .current_dir(place)
            // Servers live where ordinary users have no path.
            .env(
                "PATH",
                "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
            )
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start nginx")?;
        let server = Self {
            nginx,
            janitor,
            folder,
            address,
        };
        server.wait()?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.nginx.id()
    }

    /// A file that it serves.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Stops the server for a while. Returns the actual length.
    pub(crate) fn freeze(pid: u32, time: Duration) -> Duration {
        let pid = Pid::from_raw(pid.cast_signed());
        let since = Instant::now();
        let _ = kill(pid, Signal::SIGSTOP);
        thread::sleep(time);
        let _ = kill(pid, Signal::SIGCONT);
        since.elapsed()
    }

    fn wait(&self) -> Result<()> {
        let since = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if since.elapsed() > PATIENCE {
                bail!("nginx does not answer: {}", self.address);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.nginx.kill();
        let _ = self.nginx.wait();
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

/// A shell that removes the folder when its input ends, even if the bench is killed.
fn janitor(folder: &Path) -> Result<Child> {
    let script = "trap '' INT TERM HUP; cat >/dev/null; rm -rf -- \"$0\"";
    let shell = Command::new("sh")
        .args(["-c", script])
        .arg(folder)
        .stdin(Stdio::piped())
        .spawn();
    shell.context("cannot start sh")
}

/// The same bytes in each run. Letters, because some clients expect text.
fn body(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| b'a' + (index * index % 23) as u8)
        .collect()
}

/// A single process without a master can be stopped, pinned and killed.
fn config(place: &Path, address: SocketAddr) -> String {
    let place = place.display();
    format!(
        "daemon off;
master_process off;
user root;
pid {place}/pid;
error_log stderr crit;
worker_rlimit_nofile 40000;
events {{ worker_connections 20000; }}
http {{
    client_body_temp_path {place}/client_body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    keepalive_timeout 75s;
    server {{ listen {address} backlog=16384; root {place}; }}
}}
"
    )
}
