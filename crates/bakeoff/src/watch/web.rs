//! Serves all runs below a directory as pages that update themselves. Only GET and HEAD are allowed, and the path of a request
//! is never used as the path of a file.
//!
//! ```text
//! accept -> a thread for each connection, up to a limit
//!   http     reads one request, with a timeout
//!   guard    checks host and token
//!   board    the state of the runs, shared by all connections
//!   events   sends changed parts as server-sent events (HTML, section 9.2)
//! ```
//! There are few clients, so each connection has a thread with a blocking socket. A client that stalls only holds a sleeping
//! thread until a timeout.

mod board;
mod events;
mod guard;
mod http;

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ::http::StatusCode;
use anyhow::{Context, Result};
use record::live::Callbacks;

use board::{Board, View};
pub use guard::Guard;
use guard::Refusal;
use http::{Answer, Request};

/// Limit on connections with an admitted request, including those that wait for events.
const MAX_CONNECTIONS: usize = 64;

/// Limit on connections without an admitted request.
const MAX_WAITING: usize = 64;

/// Limit on connections that wait for events.
const MAX_WATCHERS: usize = 48;

/// Pause after an error of `accept`, for instance if there is no free file descriptor.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The listening server.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// State that all connections share.
struct Shared {
    board: Board,
    guard: Guard,
    connections: AtomicUsize,
    waiting: Mutex<WaitingConnections>,
    watchers: AtomicUsize,
    patience: Patience,
}

/// Timeouts for clients.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For sending a request.
    pub request: Duration,
    /// For receiving an answer or an event.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(5),
            answer: Duration::from_secs(10),
        }
    }
}

impl Server {
    /// Listens for requests about the runs below `dir`.
    ///
    /// # Errors
    /// `dir` cannot be listed, or the server cannot listen at `address`.
    pub fn listen(
        dir: &Path,
        address: SocketAddr,
        guard: Guard,
        callbacks: Callbacks,
        patience: Patience,
    ) -> Result<Self> {
        let board = Board::new(dir, callbacks).map_err(anyhow::Error::msg)?;
        let listener = TcpListener::bind(address).with_context(|| listen_error(address))?;
        Ok(Self {
            listener,
            shared: Arc::new(Shared {
                board,
                guard,
                connections: AtomicUsize::new(0),
                waiting: Mutex::default(),
                watchers: AtomicUsize::new(0),
                patience,
            }),
        })
    }

    /// The address with the actual port.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until the program ends.
    pub fn run(&self) -> ! {
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                thread::sleep(RETRY_DELAY);
                continue;
            };
            // If there is no second descriptor for closing it later, the connection is closed now.
            let Some(waiting) = Waiting::enter(&self.shared, &stream) else {
                continue;
            };
            // If there is no thread for it, the connection is closed.
            let _ = thread::Builder::new()
                .name("connection".into())
                .spawn(move || serve(&stream, waiting));
        }
    }
}

const BUSY: &str = "too many connections: close pages that nobody looks at";

/// The message if the server cannot listen.
fn listen_error(address: SocketAddr) -> String {
    format!("cannot listen: {address} (name another address with --listen)")
}

/// One of a limited number of slots; dropping it releases the slot.
struct Slot {
    shared: Arc<Shared>,
    kind: SlotKind,
}

#[derive(Clone, Copy)]
enum SlotKind {
    Connection,
    Watcher,
}

impl Slot {
    fn take(shared: &Arc<Shared>, kind: SlotKind) -> Option<Self> {
        let (taken, limit) = match kind {
            SlotKind::Connection => (&shared.connections, MAX_CONNECTIONS),
            SlotKind::Watcher => (&shared.watchers, MAX_WATCHERS),
        };
        let increment = |taken: usize| (taken < limit).then_some(taken + 1);
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment)
            .ok()?;
        Some(Self {
            shared: Arc::clone(shared),
            kind,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let taken = match self.kind {
            SlotKind::Connection => &self.shared.connections,
            SlotKind::Watcher => &self.shared.watchers,
        };
        taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection without an admitted request. If there are too many, the oldest one is closed for a new one, so clients
/// without the token cannot keep others out.
struct Waiting {
    shared: Arc<Shared>,
    number: u64,
}

impl Waiting {
    fn enter(shared: &Arc<Shared>, stream: &TcpStream) -> Option<Self> {
        let stream = stream.try_clone().ok()?;
        let waiting = shared.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if waiting.streams.len() == MAX_WAITING
            && let Some((_, oldest)) = waiting.streams.pop_first()
        {
            // This fails if it is closed already.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.streams.insert(number, stream);
        Some(Self {
            shared: Arc::clone(shared),
            number,
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let waiting = self.shared.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        waiting.streams.remove(&self.number);
    }
}

/// Connections without an admitted request, by number, oldest first.
#[derive(Default)]
struct WaitingConnections {
    next: u64,
    streams: BTreeMap<u64, TcpStream>,
}

/// Serves one connection: a request and its answer.
fn serve(stream: &TcpStream, waiting: Waiting) {
    let shared = Arc::clone(&waiting.shared);
    let request = match http::read(stream, shared.patience.request) {
        Ok(request) => request,
        Err(http::ReadError::Bad(status)) => {
            send_refusal(stream, &shared, &Answer::status_only(status));
            return;
        }
        Err(http::ReadError::Lost) => return,
    };
    if let Err(refusal) = shared.guard.check(&request) {
        send_refusal(stream, &shared, &refusal_answer(&refusal));
        return;
    }
    let Some(_slot) = Slot::take(&shared, SlotKind::Connection) else {
        send_refusal(
            stream,
            &shared,
            &Answer::text(StatusCode::SERVICE_UNAVAILABLE, BUSY),
        );
        return;
    };
    drop(waiting);
    // A client that is gone or too slow is disconnected; that is not an error.
    let _ = match answer(&shared, &request) {
        Reply::Answer(answer) => {
            let is_head = request.is_head;
            let written = http::write(stream, &answer, is_head, shared.patience.answer);
            http::linger(stream);
            written
        }
        Reply::Events(view) => match Slot::take(&shared, SlotKind::Watcher) {
            Some(_watcher) => events::send(stream, &shared.board, &view, shared.patience.answer),
            None => http::write(
                stream,
                &Answer::text(StatusCode::SERVICE_UNAVAILABLE, BUSY),
                false,
                shared.patience.answer,
            ),
        },
    };
}

/// Sends a client the reason why its request is refused.
fn send_refusal(stream: &TcpStream, shared: &Shared, answer: &Answer) {
    // A client that does not take it is disconnected.
    let _ = http::write(stream, answer, false, shared.patience.answer);
    http::linger(stream);
}

/// The reply to a request.
enum Reply {
    Answer(Answer),
    Events(View),
}

fn answer(shared: &Shared, request: &Request) -> Reply {
    let route = route(&request.path);
    let board = &shared.board;
    Reply::Answer(match route {
        Route::Events(_) if request.is_head => {
            Answer::text(StatusCode::METHOD_NOT_ALLOWED, "GET it")
        }
        Route::Events(view) if board.has(&view) => return Reply::Events(view),
        Route::Page(View::All) => Answer::page(board.page(&View::All)),
        Route::Page(view) if board.has(&view) => Answer::page(board.page(&view)),
        Route::Report(name) => match board.report(&name) {
            Some(report) => Answer::report(report),
            None => not_found(),
        },
        Route::Index => match board.index() {
            Some(index) => Answer::report(index),
            None => not_found(),
        },
        Route::NightReport(name) if board.has(&View::One(name.clone())) => Answer::moved(
            StatusCode::PERMANENT_REDIRECT,
            format!("/run/{}/report.html", http::encoded(&name)),
        ),
        Route::Folder(name) if board.has(&View::One(name.clone())) => Answer::moved(
            StatusCode::PERMANENT_REDIRECT,
            format!("/run/{}/", http::encoded(&name)),
        ),
        Route::Events(_)
        | Route::Page(_)
        | Route::NightReport(_)
        | Route::Folder(_)
        | Route::None => not_found(),
    })
}

fn not_found() -> Answer {
    let page = judge::topics::live::document::message_page(
        "Nothing here",
        "No run of this name is here, or it has no report.",
    );
    Answer::page(page).with_status(StatusCode::NOT_FOUND)
}

fn refusal_answer(refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::Host(host) => Answer::text(
            StatusCode::MISDIRECTED_REQUEST,
            &format!("not a host of this server: {host:?} (start it with --host {host})"),
        ),
        Refusal::Token => Answer::text(
            StatusCode::UNAUTHORIZED,
            "token needed: open the address that was printed at the start, with ?token=",
        ),
        Refusal::Welcome { to, cookie } => {
            Answer::moved(StatusCode::SEE_OTHER, to.clone()).cookie(cookie.clone())
        }
    }
}

/// The meaning of a path. Names in it are looked up among the runs, never among files.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Page(View),
    Events(View),
    Report(String),
    /// The index of a night.
    Index,
    /// A report, at the path to which the index of a night links.
    NightReport(String),
    Folder(String),
    None,
}

fn route(path: &str) -> Route {
    let parts: Vec<&str> = path.split('/').collect();
    let named = |name: &str| http::decoded(name).filter(|name| !name.is_empty());
    match parts[..] {
        ["", ""] => Route::Page(View::All),
        ["", "events"] => Route::Events(View::All),
        ["", "index.html"] => Route::Index,
        ["", name, "report.html"] => named(name).map_or(Route::None, Route::NightReport),
        ["", "run", name] => named(name).map_or(Route::None, Route::Folder),
        ["", "run", name, rest] => match (named(name), rest) {
            (Some(name), "") => Route::Page(View::One(name)),
            (Some(name), "events") => Route::Events(View::One(name)),
            (Some(name), "report.html") => Route::Report(name),
            _ => Route::None,
        },
        _ => Route::None,
    }
}
