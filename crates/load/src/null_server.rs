//! A minimal server: it answers each request at once with as many bytes as the path asks for. Its
//! figures over the same network are the ceiling of what clients can measure of any server.
//!
//! ```text
//! acceptor --connections, in turn--> worker: epoll, read a request, write the response
//!                                --> worker: ...
//! ```
//! The body of `GET /bytes/1000` has 1000 bytes, always the same ones, so clients can check it.
//! Speaks HTTP/1.1, with or without TLS. Head and body of a request together have at most 64 KiB.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::exchange::Exchange;
use crate::expect::{Content, Expect};
use crate::sys::{Poller, Registrar};

/// Prefix of paths that state a number of bytes.
const PATH: &str = "/bytes/";

/// Longest body of a response.
pub const MAX_BODY_BYTES: u64 = 256 << 20;

/// Longest request, body included.
const MAX_REQUEST_BYTES: usize = 64 << 10;

/// Bodies repeat a block of this size.
const BLOCK_BYTES: usize = 64 << 10;

/// How often threads check whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Most events per wait.
const BATCH: u16 = 256;

/// Letters, because some clients expect text.
static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let letter = |index: usize| b'a' + (index * index % 23) as u8;
    (0..BLOCK_BYTES).map(letter).collect()
});

/// How a null server is set up.
#[derive(Clone, Default)]
pub struct Settings {
    /// Worker threads; 0 for one per CPU that this process may use.
    pub threads: usize,
    /// Body length for paths that state none.
    pub bytes: u64,
    /// Certificate and key, if connections are encrypted.
    pub tls: Option<Arc<ServerConfig>>,
    /// How long a connection stays open after its last response, unless the client closes it. Some
    /// proxies and servers close late.
    pub open_for: Duration,
}

/// A running null server; stops when it is dropped.
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Reads certificate and key for `Settings` from PEM files.
///
/// # Errors
/// A file cannot be read, or key and certificate do not match.
pub fn tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("not certificates in PEM: {}", certificate.display()))?;
    ensure!(
        !Vec::is_empty(&chain),
        "no certificate in PEM: {} (name the server's certificate)",
        certificate.display()
    );
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("not a key in PEM: {}", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("cannot offer any version of TLS")?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("certificate and key do not fit")?;
    Ok(Arc::new(config))
}

/// An exchange with a null server that costs a client as much as `real`: a body of the same length,
/// checked in the same way. `None` if the length of the body is unknown.
pub fn exchange(real: &Exchange) -> Option<Exchange> {
    let length = match &real.expect.content {
        Content::Any | Content::Begins(_) => return None,
        Content::Hash { length, .. } => *length,
        Content::Bytes(bytes) => bytes.len() as u64,
    };
    let body = (length <= MAX_BODY_BYTES).then(|| body(length))?;
    let expect = match &real.expect.content {
        Content::Hash { .. } => Expect::hash(length, crate::expect::sha256(&body)),
        Content::Any | Content::Begins(_) | Content::Bytes(_) => Expect::body(body),
    };
    Some(Exchange {
        path: format!("{PATH}{length}{}", real.path),
        expect,
        ..real.clone()
    })
}

/// The body of this length.
fn body(length: u64) -> Vec<u8> {
    let bytes = BLOCK.iter().copied().cycle();
    bytes.take(length as usize).collect()
}

impl NullServer {
    /// Starts to listen, in the caller's network namespace and on the caller's CPUs.
    ///
    /// # Errors
    /// It cannot listen on `address`, or `settings.bytes` is too large.
    pub fn start(address: SocketAddr, settings: &Settings) -> Result<Self> {
        ensure!(
            settings.bytes <= MAX_BODY_BYTES,
            "answer too long: {} bytes (ask for at most {MAX_BODY_BYTES})",
            settings.bytes
        );
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen: {address} (is the port taken?)"))?;
        // A long queue, because many clients connect at the same time.
        rustix::net::listen(&listener, 4096).context("cannot listen for many")?;
        let address = listener
            .local_addr()
            .context("cannot read the server's address")?;
        let count = match settings.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (mut threads, mut workers) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let registrar = Registrar::new().context("cannot make an epoll instance")?;
            let epoll = registrar
                .try_clone()
                .context("cannot share an epoll instance")?;
            let (sender, receiver) = mpsc::channel();
            workers.push((registrar, sender));
            let stop = Arc::clone(&stop);
            let &Settings {
                bytes, open_for, ..
            } = settings;
            threads.push(thread::spawn(move || {
                let worker = Worker {
                    poller: epoll.poller(BATCH),
                    receiver,
                    open: HashMap::new(),
                    bytes,
                    open_for,
                    finished: VecDeque::new(),
                };
                worker.run(&stop);
            }));
        }
        let acceptor = Acceptor {
            listener,
            workers,
            tls: settings.tls.clone(),
        };
        let acceptor_stop = Arc::clone(&stop);
        threads.push(thread::spawn(move || acceptor.run(&acceptor_stop)));
        Ok(Self {
            address,
            stop,
            threads,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Hands connections to the workers in turn.
struct Acceptor {
    listener: TcpListener,
    workers: Vec<(Registrar, Sender<(u64, Connection)>)>,
    tls: Option<Arc<ServerConfig>>,
}

impl Acceptor {
    fn run(self, stop: &AtomicBool) {
        let mut key = 0;
        while !stop.load(Ordering::Relaxed) {
            if !crate::sys::wait_readable(&self.listener, POLL_INTERVAL) {
                continue;
            }
            // The client may have left, or there may be no descriptor: skip the connection.
            let Ok((stream, _)) = self.listener.accept() else {
                continue;
            };
            let _ = self.hand_over(stream, key);
            key += 1;
        }
    }

    /// Sends a connection to its worker, and only then registers it for events.
    fn hand_over(&self, stream: TcpStream, key: u64) -> io::Result<()> {
        let (registrar, worker) = &self.workers[key as usize % self.workers.len()];
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let watched = stream.try_clone()?;
        let stream = match &self.tls {
            None => Stream::Plain(stream),
            Some(config) => {
                let session = ServerConnection::new(Arc::clone(config));
                let session = session.map_err(io::Error::other)?;
                Stream::Secure(Box::new(StreamOwned::new(session, stream)))
            }
        };
        let connection = Connection::new(stream);
        worker.send((key, connection)).map_err(io::Error::other)?;
        registrar.add(&watched, key)
    }
}

struct Worker {
    poller: Poller,
    receiver: Receiver<(u64, Connection)>,
    open: HashMap<u64, Connection>,
    bytes: u64,
    open_for: Duration,
    /// Connections kept open after their last response: when to close each, and its key.
    finished: VecDeque<(Instant, u64)>,
}

impl Worker {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let Ok(count) = self.poller.wait(POLL_INTERVAL) else {
                return;
            };
            self.open.extend(self.receiver.try_iter());
            for index in 0..count {
                let key = self.poller.event(index).key;
                let Some(connection) = self.open.get_mut(&key) else {
                    continue;
                };
                if connection.advance(self.bytes).is_ok() {
                    continue;
                }
                if connection.is_last && !connection.is_finished && !self.open_for.is_zero() {
                    connection.is_finished = true;
                    let until = Instant::now() + self.open_for;
                    self.finished.push_back((until, key));
                } else {
                    self.open.remove(&key);
                }
            }
            while let Some((until, key)) = self.finished.front()
                && *until <= Instant::now()
            {
                self.open.remove(key);
                self.finished.pop_front();
            }
        }
    }
}

enum Stream {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// A connection: the received part of a request, and the rest of a response.
struct Connection {
    stream: Stream,
    input: Vec<u8>,
    head: Vec<u8>,
    head_sent: usize,
    body_left: u64,
    body_sent: u64,
    /// Whether TLS has no buffered bytes left.
    is_flushed: bool,
    /// Whether the response is the last one.
    is_last: bool,
    /// Whether the last response was sent and the connection waits for the client to close it.
    is_finished: bool,
}

impl Connection {
    fn new(stream: Stream) -> Self {
        Self {
            stream,
            input: Vec::new(),
            head: Vec::new(),
            head_sent: 0,
            body_left: 0,
            body_sent: 0,
            is_flushed: true,
            is_last: false,
            is_finished: false,
        }
    }

    /// Reads and writes until the socket would block. An error ends the connection.
    fn advance(&mut self, bytes: u64) -> io::Result<()> {
        let end = || Err(ErrorKind::ConnectionAborted.into());
        if self.is_finished {
            return match self.read(&mut [0; 64]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
                Ok(_) | Err(_) => end(),
            };
        }
        loop {
            match self.send() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.is_last {
                return end();
            }
            if self.take_request(bytes)? {
                continue;
            }
            let mut buffer = [0; 16 << 10];
            match self.read(&mut buffer) {
                Ok(0) => return end(),
                Ok(length) => self.input.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.read(buffer),
            Stream::Secure(stream) => stream.read(buffer),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.head_sent < self.head.len() || self.body_left > 0 {
            let head = &self.head[self.head_sent..];
            let at = (self.body_sent % BLOCK_BYTES as u64) as usize;
            let length = self.body_left.min((BLOCK_BYTES - at) as u64) as usize;
            let body = &BLOCK[at..at + length];
            let parts = [IoSlice::new(head), IoSlice::new(body)];
            let sent = match &mut self.stream {
                Stream::Plain(stream) => stream.write_vectored(&parts)?,
                Stream::Secure(stream) if head.is_empty() => stream.write(body)?,
                Stream::Secure(stream) => stream.write(head)?,
            };
            let head_bytes = sent.min(head.len());
            let body_bytes = (sent - head_bytes) as u64;
            self.head_sent += head_bytes;
            self.body_left -= body_bytes;
            self.body_sent += body_bytes;
            self.is_flushed = false;
        }
        if !self.is_flushed {
            if let Stream::Secure(stream) = &mut self.stream {
                stream.flush()?;
            }
            self.is_flushed = true;
        }
        Ok(())
    }

    /// Takes a whole request from the input and prepares its response; `false` if more bytes are
    /// needed.
    fn take_request(&mut self, bytes: u64) -> io::Result<bool> {
        let invalid = || io::Error::from(ErrorKind::InvalidData);
        let Some(end) = self.input.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if self.input.len() > MAX_REQUEST_BYTES {
                Err(invalid())
            } else {
                Ok(false)
            };
        };
        let head = std::str::from_utf8(&self.input[..end]).map_err(|_| invalid())?;
        let request = Request::read(head, bytes).ok_or_else(invalid)?;
        let whole = end + 4 + request.body_bytes;
        if whole > MAX_REQUEST_BYTES {
            return Err(invalid());
        }
        if self.input.len() < whole {
            return Ok(false);
        }
        let length = request.bytes;
        self.is_last = request.is_last;
        self.head = response_head(length, request.is_last).into_bytes();
        (self.head_sent, self.body_sent) = (0, 0);
        self.body_left = if request.is_head { 0 } else { length };
        self.input.drain(..whole);
        Ok(true)
    }
}

/// A head with as many fields as web servers send, so clients have as much to read.
fn response_head(length: u64, is_last: bool) -> String {
    let connection = if is_last { "close" } else { "keep-alive" };
    format!(
        "HTTP/1.1 200 OK\r\nServer: bakeoff-null\r\nDate: Thu, 01 Jan 2004 00:00:00 GMT\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\
         Last-Modified: Thu, 01 Jan 2004 00:00:00 GMT\r\nConnection: {connection}\r\n\
         ETag: \"0-0\"\r\nAccept-Ranges: bytes\r\n\r\n"
    )
}

/// The relevant parts of a request.
struct Request {
    bytes: u64,
    body_bytes: usize,
    is_head: bool,
    is_last: bool,
}

impl Request {
    fn read(head: &str, default_bytes: u64) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        let mut request = Self {
            bytes: requested_bytes(path, default_bytes)?,
            body_bytes: 0,
            is_head: method == "HEAD",
            is_last: version == "HTTP/1.0",
        };
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                request.body_bytes = value.parse().ok()?;
            } else if name.eq_ignore_ascii_case("connection") {
                request.is_last = value.eq_ignore_ascii_case("close");
            }
        }
        Some(request)
    }
}

/// The number of bytes that a path asks for; `default` for other paths. `None` if the number is too
/// large or malformed.
fn requested_bytes(path: &str, default: u64) -> Option<u64> {
    let Some(rest) = path.strip_prefix(PATH) else {
        return Some(default);
    };
    let number = rest.split(['/', '?']).next().unwrap_or_default();
    let bytes = number.parse::<u64>().ok()?;
    (bytes <= MAX_BODY_BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{End, Mix, Traffic};

    fn run(traffic: &Traffic) -> record::load::LoadResult {
        crate::run::run(traffic, &AtomicBool::new(false), &mut |_| {}).unwrap()
    }

    fn start() -> NullServer {
        let settings = Settings {
            threads: 2,
            ..Settings::default()
        };
        NullServer::start(([127, 0, 0, 1], 0).into(), &settings).unwrap()
    }

    #[test]
    fn bodies_of_all_lengths_are_correct() {
        let server = start();
        let block = BLOCK_BYTES as u64;
        let lengths = [0, 1, block - 1, block + 1, 300_000];
        let real = lengths.map(|length| Exchange::get("/page?x=1", Expect::hash(length, [0; 32])));
        let exchanges: Vec<Exchange> = real.iter().filter_map(exchange).collect();
        for keep_alive in [true, false] {
            let result = run(&Traffic {
                connections: 3,
                keep_alive,
                end: End::Count(60),
                ..Traffic::plain(server.address(), Mix::Round(exchanges.clone()))
            });
            assert_eq!(
                (result.ok, result.fault_count()),
                (60, 0),
                "{:?}",
                result.faults
            );
        }
    }

    #[test]
    fn clients_do_not_wait_for_a_server_that_closes_late() {
        // envoyproxy/envoy#5788
        let settings = Settings {
            open_for: Duration::from_secs(600),
            ..Settings::default()
        };
        let server = NullServer::start(([127, 0, 0, 1], 0).into(), &settings).unwrap();
        let page = exchange(&Exchange::get("/", Expect::hash(5, [0; 32]))).unwrap();
        let result = run(&Traffic {
            connections: 2,
            keep_alive: false,
            end: End::Count(400),
            ..Traffic::plain(server.address(), Mix::Round(vec![page]))
        });
        assert_eq!((result.ok, result.connections_opened), (400, 400));
    }

    #[test]
    fn only_bodies_of_known_length_have_a_counterpart() {
        let counterpart = |expect| exchange(&Exchange::get("/a", expect));
        assert_eq!(counterpart(Expect::status(200)), None);
        assert_eq!(counterpart(Expect::begins(*b"x")), None);
        let too_long = Expect::hash(MAX_BODY_BYTES + 1, [0; 32]);
        assert_eq!(counterpart(too_long), None);
        let found = counterpart(Expect::body(*b"12345")).unwrap();
        assert_eq!(found.path, "/bytes/5/a");
        assert_eq!(found.expect, Expect::body(body(5)));
    }

    #[test]
    fn garbage_ends_only_its_own_connection() {
        let server = start();
        for garbage in ["x\r\n\r\n", "GET /bytes/999999999999 HTTP/1.1\r\n\r\n"] {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(garbage.as_bytes()).unwrap();
            let mut received = Vec::new();
            // A connection that is closed with unread bytes is reset.
            let _ = stream.read_to_end(&mut received);
            assert_eq!(received, b"");
        }
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream
            .write_all(b"GET /other HTTP/1.1\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    }
}
