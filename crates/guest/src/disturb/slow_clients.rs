//! Slow clients: each requests pages and reads one byte a second, so that the server must hold its answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use workload::probe::Probe;

use super::{Impact, Ongoing, Site};

/// Receive buffer of a client; the kernel raises it to its minimum, some two thousand bytes.
const BUFFER_BYTES: usize = 1;

/// Pipelined requests of each client: their answers fill all buffers between server and client.
const REQUESTS: usize = 500;

const SECOND: Duration = Duration::from_secs(1);

struct SlowClients {
    clients: Vec<TcpStream>,
    /// The bytes that each client sends.
    requests: Vec<u8>,
    /// How many of them each client has sent.
    sent: Vec<usize>,
    last_read: Instant,
    ended: u64,
}

pub(super) fn begin(connections: u32, site: &Site) -> Result<Box<dyn Ongoing>> {
    let Some((server, path)) = site.services.iter().find_map(page) else {
        bail!("no server has a page to ask for");
    };
    let connect = || {
        (0..connections)
            .map(|_| slow(server))
            .collect::<Result<Vec<_>>>()
    };
    let clients = site
        .client
        .within(connect)?
        .context("connect slow clients")?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.ip());
    let mut slow = SlowClients {
        sent: vec![0; clients.len()],
        clients,
        requests: request.into_bytes().repeat(REQUESTS),
        last_read: Instant::now(),
        ended: 0,
    };
    slow.tick(site);
    Ok(Box::new(slow))
}

fn page(service: &super::ServicePlace) -> Option<(SocketAddr, String)> {
    match &service.probe {
        Probe::Http { server, path, .. } => Some((*server, path.clone())),
        Probe::Program { .. } | Probe::Custom { .. } => None,
    }
}

/// Begins to connect, with the smallest receive buffer.
fn slow(server: SocketAddr) -> Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // Before it connects, because the first packet announces the window.
    set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
    match connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket.into()),
        Err(why) => Err(why.into()),
    }
}

impl Ongoing for SlowClients {
    fn tick(&mut self, _site: &Site) {
        for (client, sent) in self.clients.iter_mut().zip(&mut self.sent) {
            while let Some(rest) = self.requests.get(*sent..).filter(|rest| !rest.is_empty()) {
                match client.write(rest) {
                    Ok(bytes) => *sent += bytes,
                    Err(_) => break,
                }
            }
        }
        if self.last_read.elapsed() >= SECOND {
            self.last_read = Instant::now();
            let mut sent = self.sent.iter();
            let before = self.clients.len();
            let mut left = Vec::new();
            self.clients.retain_mut(|client| {
                let sent = sent.next().copied().unwrap_or(0);
                let stays = !matches!(client.read(&mut [0]), Ok(0)) && !is_broken(client);
                if stays {
                    left.push(sent);
                }
                stays
            });
            self.sent = left;
            self.ended += (before - self.clients.len()) as u64;
        }
    }

    fn end(&mut self, _site: &Site) -> Result<Impact> {
        // A client that has sent something was accepted.
        let held = self.sent.iter().filter(|sent| **sent > 0).count() as u64;
        self.clients.clear();
        Ok(Impact::new("held", held).with("closed-by-server", self.ended))
    }
}

fn is_broken(client: &TcpStream) -> bool {
    let why = client.take_error().ok().flatten();
    why.is_some_and(|why| why.kind() != ErrorKind::WouldBlock)
}
