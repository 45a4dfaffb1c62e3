//! Test servers on loopback, with one thread per connection.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Body of a successful response.
pub const BODY: &[u8] = b"twenty bytes of text";

/// Limit of deadlines and waits, which ends a hang even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub fn wait_until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "timed out");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A server under test.
pub struct Server {
    pub address: SocketAddr,
    state: Arc<State>,
    acceptor: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    stopping: AtomicBool,
    connections: AtomicU64,
}

impl Server {
    /// Serves each connection with `watch --web` on a new thread.
    pub fn start(serve: fn(TcpStream)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let acceptor = {
            let state = Arc::clone(&state);
            std::thread::spawn(move || accept(&listener, &state, serve))
        };
        Self {
            address,
            state,
            acceptor,
        }
    }

    /// Stops the server. Returns the number of connections that it accepted.
    pub fn stop(self) -> u64 {
        self.state.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        self.acceptor.join().unwrap();
        self.state.connections.load(Ordering::SeqCst)
    }
}

fn accept(listener: &TcpListener, state: &State, serve: fn(TcpStream)) {
    loop {
        let (stream, _) = listener.accept().unwrap();
        if state.stopping.load(Ordering::SeqCst) {
            return;
        }
        state.connections.fetch_add(1, Ordering::SeqCst);
        std::thread::spawn(move || serve(stream));
    }
}

/// Reads up to the end of a request's head; `false` when the client has closed.
pub fn wait_for_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return false,
            Ok(length) => seen.extend_from_slice(&buffer[..length]),
        }
    }
    true
}

/// Answers all requests of a connection.
pub fn serve_correctly(mut stream: TcpStream) {
    while wait_for_request(&mut stream) {
        respond(&mut stream, BODY);
    }
}

/// Sends a successful response with this body.
pub fn respond(stream: &mut TcpStream, body: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

/// Sends the last response of a connection.
pub fn respond_and_close(stream: &mut TcpStream, body: &[u8]) {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

/// Waits for a request and sends `bytes`. The kernel then resets the connection, because it is
/// closed with unread bytes.
pub fn reset_after(stream: &TcpStream, bytes: &[u8]) {
    let mut buffer = [0; 1];
    if stream.peek(&mut buffer).is_ok() {
        let _ = (&*stream).write_all(bytes);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A listener with a full accept queue, and the connections that fill it.
pub fn full_backlog() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let patience = Duration::from_millis(50);
    let fillers = std::iter::from_fn(|| TcpStream::connect_timeout(&address, patience).ok());
    (listener, fillers.collect())
}

/// Sends the last response of a connection and waits for the client to close it. Envoy closes late
/// by default.
pub fn respond_and_stay(stream: &mut TcpStream, answer: &[u8]) {
    if stream.write_all(answer).is_ok() {
        let _ = stream.read(&mut [0; 64]);
    }
}
