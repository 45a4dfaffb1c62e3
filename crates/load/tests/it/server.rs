//! Small servers on loopback that do as they are told, one thread per connection.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a successful response holds.
pub const BODY: &[u8] = b"twenty bytes of text";

/// Deadlines and waits that only end a hang: no response takes so long, however busy the machine
/// is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that is sure to come.
pub fn wait_until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain");
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
    /// Serves each connection with `serve`, on a thread of its own.
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

    /// Ends the server; the connections that it has seen.
    pub fn stop(self) -> u64 {
        self.state.stopping.store(true, Ordering::SeqCst);
        // The acceptor looks up only when somebody comes.
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

/// Responses all requests of a connection.
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

/// Sends a response that is the last of its connection.
pub fn respond_and_close(stream: &mut TcpStream, body: &[u8]) {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

/// Waits for a request, sends `bytes` and resets the connection: the kernel does so when a socket
/// is closed with bytes that nobody has read.
pub fn reset_after(stream: &TcpStream, bytes: &[u8]) {
    let mut buffer = [0; 1];
    if stream.peek(&mut buffer).is_ok() {
        let _ = (&*stream).write_all(bytes);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A listener that nobody serves and whose queue is full, with what fills it.
pub fn full_backlog() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let patience = Duration::from_millis(50);
    let fillers = std::iter::from_fn(|| TcpStream::connect_timeout(&address, patience).ok());
    let fillers = fillers.collect();
    (listener, fillers)
}

/// Sends a response that is the last of its connection, and leaves that open until the client closes
/// it. Closing late is what Envoy does by default; others wait for the client.
pub fn respond_and_stay(stream: &mut TcpStream, answer: &[u8]) {
    if stream.write_all(answer).is_ok() {
        let _ = stream.read(&mut [0; 64]);
    }
}
