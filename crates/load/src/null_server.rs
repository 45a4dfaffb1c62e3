//! A server that does next to nothing: it answers each request at once with as many bytes as the request's path asks for.
//! What clients get from it through the same network is the most that they can measure of any server: their ceiling.
//!
//! ```text
//! acceptor --connections, in turn--> worker: epoll, read a request, write the answer
//!                                --> worker: ...
//! ```
//! `GET /bytes/1000` has a body of 1000 bytes, always the same ones, so that clients check it as they check any other.
//! HTTP/1.1, with or without TLS. A request has no body that is longer than its head's buffer.

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

/// Where paths begin that say how many bytes they want.
const PATH: &str = "/bytes/";

/// Most bytes of an answer.
pub const MOST_BYTES: u64 = 256 << 20;

/// Longest head of a request.
const HEAD_BYTES: usize = 64 << 10;

/// Bodies are this many bytes over and over.
const BLOCK_BYTES: usize = 64 << 10;

/// How often a thread looks whether it is to end.
const GLANCE: Duration = Duration::from_millis(50);

/// Most events taken at once.
const BATCH: u16 = 256;

/// Letters, so that no client takes offence.
static BLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let letter = |index: usize| b'a' + (index * index % 23) as u8;
    (0..BLOCK_BYTES).map(letter).collect()
});

/// How a null server is set up.
#[derive(Clone, Default)]
pub struct Settings {
    /// Threads that answer; 0 for one per CPU that this process may use.
    pub threads: usize,
    /// Bytes of the answer to a path that asks for none.
    pub bytes: u64,
    /// Certificate and key, where connections are to be encrypted.
    pub tls: Option<Arc<ServerConfig>>,
}

/// A null server; it ends when it is dropped.
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Certificate and key for `Settings`, both files in PEM.
///
/// # Errors
/// Says which file cannot be read, or that key and certificate do not belong together.
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

/// The exchange with a null server that costs a client as much as `real` does with its server: as many bytes, checked in the
/// same way. `None` where nobody knows how many bytes the answer has.
pub fn exchange(real: &Exchange) -> Option<Exchange> {
    let length = match &real.expect.content {
        Content::Any | Content::Begins(_) => return None,
        Content::Hash { length, .. } => *length,
        Content::Bytes(bytes) => bytes.len() as u64,
    };
    let body = (length <= MOST_BYTES).then(|| body(length))?;
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

/// What an answer of so many bytes holds.
fn body(length: u64) -> Vec<u8> {
    BLOCK
        .iter()
        .copied()
        .cycle()
        .take(length as usize)
        .collect()
}

impl NullServer {
    /// Begins to listen, in the caller's network namespace and on the caller's CPUs.
    ///
    /// # Errors
    /// Says why it cannot listen there.
    pub fn start(address: SocketAddr, settings: &Settings) -> Result<Self> {
        Self::start_closing_late(address, settings, Duration::ZERO)
    }

    /// As `start`; a connection stays open for so long after the last answer on it, unless the client closes it. Some proxies
    /// and servers do so.
    ///
    /// # Errors
    /// As those of `start`.
    pub fn start_closing_late(
        address: SocketAddr,
        settings: &Settings,
        open_for: Duration,
    ) -> Result<Self> {
        ensure!(
            settings.bytes <= MOST_BYTES,
            "answer too long: {} bytes (ask for at most {MOST_BYTES})",
            settings.bytes
        );
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen: {address} (is the port taken?)"))?;
        // As many as come at once: clients begin together.
        rustix::net::listen(&listener, 4096).context("cannot listen for many")?;
        let address = listener.local_addr().context("an address of its own")?;
        let count = match settings.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (mut threads, mut workers) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let registrar = Registrar::new().context("cannot make an epoll instance")?;
            let own = registrar
                .shared()
                .context("cannot share an epoll instance")?;
            let (give, take) = mpsc::channel();
            workers.push((registrar, give));
            let (stop, bytes) = (Arc::clone(&stop), settings.bytes);
            threads.push(thread::spawn(move || {
                let worker = Worker {
                    poller: own.poller(BATCH),
                    take,
                    open: HashMap::new(),
                    bytes,
                    open_for,
                    done: VecDeque::new(),
                };
                worker.run(&stop);
            }));
        }
        let acceptor = Acceptor {
            listener,
            workers,
            tls: settings.tls.clone(),
        };
        let ends = Arc::clone(&stop);
        threads.push(thread::spawn(move || acceptor.run(&ends)));
        Ok(Self {
            address,
            stop,
            threads,
        })
    }

    /// Where it listens.
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

/// Hands connections to the workers in turn, so that none has two more than another.
struct Acceptor {
    listener: TcpListener,
    workers: Vec<(Registrar, Sender<(u64, Connection)>)>,
    tls: Option<Arc<ServerConfig>>,
}

impl Acceptor {
    fn run(self, stop: &AtomicBool) {
        let mut key = 0;
        while !stop.load(Ordering::Relaxed) {
            if !crate::sys::wait_readable(&self.listener, GLANCE) {
                continue;
            }
            // Who has left meanwhile, or cannot be served for want of descriptors, is not served.
            let Ok((stream, _)) = self.listener.accept() else {
                continue;
            };
            let (registrar, give) = &self.workers[key as usize % self.workers.len()];
            let _ = self.hand_over(stream, registrar, give, key);
            key += 1;
        }
    }

    /// The worker has the connection before it can hear of it.
    fn hand_over(
        &self,
        stream: TcpStream,
        registrar: &Registrar,
        give: &Sender<(u64, Connection)>,
        key: u64,
    ) -> io::Result<()> {
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
        give.send((key, connection)).map_err(io::Error::other)?;
        registrar.add(&watched, key)
    }
}

struct Worker {
    poller: Poller,
    take: Receiver<(u64, Connection)>,
    open: HashMap<u64, Connection>,
    bytes: u64,
    /// How long connections stay open after the last answer.
    open_for: Duration,
    /// Those that do, and until when.
    done: VecDeque<(Instant, u64)>,
}

impl Worker {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let Ok(count) = self.poller.wait(GLANCE) else {
                return;
            };
            self.open.extend(self.take.try_iter());
            for index in 0..count {
                let key = self.poller.event(index).key;
                let Some(connection) = self.open.get_mut(&key) else {
                    continue;
                };
                if connection.advance(self.bytes).is_ok() {
                    continue;
                }
                if connection.is_last && !connection.is_done && !self.open_for.is_zero() {
                    connection.is_done = true;
                    self.done.push_back((Instant::now() + self.open_for, key));
                } else {
                    self.open.remove(&key);
                }
            }
            self.close_done();
        }
    }

    fn close_done(&mut self) {
        while let Some((until, key)) = self.done.front()
            && *until <= Instant::now()
        {
            self.open.remove(key);
            self.done.pop_front();
        }
    }
}

enum Stream {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// A connection: what has come of a request, and what is left of an answer.
struct Connection {
    stream: Stream,
    input: Vec<u8>,
    head: Vec<u8>,
    head_sent: usize,
    body_left: u64,
    body_sent: u64,
    /// Some of an answer may still be with TLS.
    is_flushed: bool,
    is_last: bool,
    /// The last answer has gone; nothing but the client's end is waited for.
    is_done: bool,
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
            is_done: false,
        }
    }

    /// Goes on until the socket has or takes no more; an error is the connection's end.
    fn advance(&mut self, bytes: u64) -> io::Result<()> {
        let end = || Err(ErrorKind::ConnectionAborted.into());
        if self.is_done {
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
            let of_head = sent.min(head.len());
            self.head_sent += of_head;
            self.body_left -= (sent - of_head) as u64;
            self.body_sent += (sent - of_head) as u64;
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

    /// Takes a whole request off what has come, and prepares its answer; `false` where more must come.
    fn take_request(&mut self, bytes: u64) -> io::Result<bool> {
        let invalid = || io::Error::from(ErrorKind::InvalidData);
        let Some(end) = self.input.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if self.input.len() > HEAD_BYTES {
                Err(invalid())
            } else {
                Ok(false)
            };
        };
        let head = std::str::from_utf8(&self.input[..end]).map_err(|_| invalid())?;
        let request = Request::read(head, bytes).ok_or_else(invalid)?;
        let whole = end + 4 + request.body_bytes;
        if whole > HEAD_BYTES {
            return Err(invalid());
        }
        if self.input.len() < whole {
            return Ok(false);
        }
        let length = request.bytes;
        self.is_last = request.is_last;
        self.head = answer_head(length, request.is_last).into_bytes();
        (self.head_sent, self.body_sent) = (0, 0);
        self.body_left = if request.is_head { 0 } else { length };
        self.input.drain(..whole);
        Ok(true)
    }
}

/// As many fields as web servers send, so that a client has as much to read.
fn answer_head(length: u64, is_last: bool) -> String {
    let connection = if is_last { "close" } else { "keep-alive" };
    format!(
        "HTTP/1.1 200 OK\r\nServer: bakeoff-null\r\nDate: Thu, 01 Jan 2004 00:00:00 GMT\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\
         Last-Modified: Thu, 01 Jan 2004 00:00:00 GMT\r\nConnection: {connection}\r\n\
         ETag: \"0-0\"\r\nAccept-Ranges: bytes\r\n\r\n"
    )
}

/// What a request says that matters here.
struct Request {
    bytes: u64,
    body_bytes: usize,
    is_head: bool,
    is_last: bool,
}

impl Request {
    fn read(head: &str, others: u64) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        let mut request = Self {
            bytes: asked_bytes(path, others)?,
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

/// The bytes that a path asks for, or as many as others get; `None` where it asks for too many, or for no number.
fn asked_bytes(path: &str, others: u64) -> Option<u64> {
    let Some(rest) = path.strip_prefix(PATH) else {
        return Some(others);
    };
    let number = rest.split(['/', '?']).next().unwrap_or_default();
    let bytes = number.parse::<u64>().ok()?;
    (bytes <= MOST_BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{End, Mix, Traffic};

    fn ask(traffic: &Traffic) -> record::load::LoadResult {
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
    fn every_answer_is_right_whatever_its_length() {
        let server = start();
        let real = [
            0,
            1,
            BLOCK_BYTES as u64 - 1,
            BLOCK_BYTES as u64 + 1,
            300_000,
        ]
        .map(|length| Exchange::get("/page?x=1", Expect::hash(length, [0; 32])));
        let exchanges: Vec<Exchange> = real.iter().filter_map(exchange).collect();
        for keep_alive in [true, false] {
            let result = ask(&Traffic {
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
        let open_for = Duration::from_secs(600);
        let address = ([127, 0, 0, 1], 0).into();
        let settings = Settings::default();
        let server = NullServer::start_closing_late(address, &settings, open_for).unwrap();
        let page = exchange(&Exchange::get("/", Expect::hash(5, [0; 32]))).unwrap();
        let result = ask(&Traffic {
            connections: 2,
            keep_alive: false,
            end: End::Count(400),
            ..Traffic::plain(server.address(), Mix::Round(vec![page]))
        });
        assert_eq!((result.ok, result.connections_opened), (400, 400));
    }

    #[test]
    fn what_is_not_known_has_no_counterpart() {
        let of = |expect| exchange(&Exchange::get("/a", expect));
        assert_eq!(of(Expect::status(200)), None);
        assert_eq!(of(Expect::begins(*b"x")), None);
        assert_eq!(of(Expect::hash(MOST_BYTES + 1, [0; 32])), None);
        let own = of(Expect::body(*b"12345")).unwrap();
        assert_eq!(own.path, "/bytes/5/a");
        assert_eq!(own.expect, Expect::body(body(5)));
    }

    #[test]
    fn garbage_ends_its_connection_alone() {
        let server = start();
        for garbage in ["x\r\n\r\n", "GET /bytes/999999999999 HTTP/1.1\r\n\r\n"] {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(garbage.as_bytes()).unwrap();
            let mut said = Vec::new();
            // A connection that is closed with bytes unread is reset.
            let _ = stream.read_to_end(&mut said);
            assert_eq!(said, b"");
        }
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream
            .write_all(b"GET /other HTTP/1.1\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    }
}
