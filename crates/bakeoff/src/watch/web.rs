//! All runs below a directory as pages that keep themselves up to date. Read-only: GET and HEAD, and no path of a request is ever a
//! path of a file.
//!
//! ```text
//! accept -> a thread for each connection, no more than so many
//!   http     one request, within its time
//!   guard    whose request it is: host, token; who may ask gets a seat
//!   board    the runs, each looked at once for all who watch it
//!   events   parts that changed, as server-sent events (HTML, section 9.2)
//! ```
//! A thread for each connection and blocking sockets with deadlines: those who watch are few, and a client that stalls holds a thread
//! that sleeps, for so long as it may.

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
use record::live::Eyes;

use board::{Board, View};
pub use guard::Guard;
use guard::Refusal;
use http::{Answer, Request};

/// Connections at a time whose requests may be answered; those that wait for events are among them.
const CONNECTIONS: usize = 64;

/// Connections at a time that have not sent their request, or have no right to an answer.
const WAITING: usize = 64;

/// Pages that are kept up to date at a time.
const WATCHERS: usize = 48;

/// How long to wait after the system had no descriptor for a connection.
const NO_DESCRIPTOR: Duration = Duration::from_millis(100);

/// The server, listening.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What all connections share.
struct Shared {
    board: Board,
    guard: Guard,
    connections: AtomicUsize,
    line: Mutex<Line>,
    watchers: AtomicUsize,
    /// How long clients may take.
    patience: Patience,
}

/// How long clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a request.
    pub request: Duration,
    /// To take an answer, or what changed.
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
    /// Where `dir` cannot be listed, and where nobody can listen at `address`.
    pub fn listen(
        dir: &Path,
        address: SocketAddr,
        guard: Guard,
        eyes: Eyes,
        patience: Patience,
    ) -> Result<Self> {
        let board = Board::new(dir, eyes).map_err(anyhow::Error::msg)?;
        let listener = TcpListener::bind(address).with_context(|| refused(address))?;
        Ok(Self {
            listener,
            shared: Arc::new(Shared {
                board,
                guard,
                connections: AtomicUsize::new(0),
                line: Mutex::default(),
                watchers: AtomicUsize::new(0),
                patience,
            }),
        })
    }

    /// Where it listens: the port too, where any was asked for.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests for as long as the program lives.
    pub fn run(&self) -> ! {
        loop {
            let Ok((stream, _)) = self.listener.accept() else {
                thread::sleep(NO_DESCRIPTOR);
                continue;
            };
            // Without a second descriptor for it nobody could close it later: it is closed now.
            let Some(waiting) = Waiting::join(&self.shared, &stream) else {
                continue;
            };
            // Where no thread can be had the connection is closed, as the client sees.
            let _ = thread::Builder::new()
                .name("connection".into())
                .spawn(move || serve(&stream, waiting));
        }
    }
}

const BUSY: &str = "too many connections: close pages that nobody looks at";

/// What to say where nobody can listen.
fn refused(address: SocketAddr) -> String {
    format!("cannot listen: {address} (name another address with --listen)")
}

/// One of a bounded number of seats, given back when it is dropped.
struct Place {
    shared: Arc<Shared>,
    seat: Seat,
}

#[derive(Clone, Copy)]
enum Seat {
    Connection,
    Watcher,
}

impl Place {
    fn take(shared: &Arc<Shared>, seat: Seat) -> Option<Self> {
        let (taken, most) = match seat {
            Seat::Connection => (&shared.connections, CONNECTIONS),
            Seat::Watcher => (&shared.watchers, WATCHERS),
        };
        let one_more = |taken: usize| (taken < most).then_some(taken + 1);
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        Some(Self {
            shared: Arc::clone(shared),
            seat,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let taken = match self.seat {
            Seat::Connection => &self.shared.connections,
            Seat::Watcher => &self.shared.watchers,
        };
        taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that has not shown yet that it may have a seat. There is always room for one more: the one that has waited longest is
/// closed for it, so that nobody without the token keeps those out who have it.
struct Waiting {
    shared: Arc<Shared>,
    number: u64,
}

impl Waiting {
    fn join(shared: &Arc<Shared>, stream: &TcpStream) -> Option<Self> {
        let stream = stream.try_clone().ok()?;
        let mut line = shared.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.streams.len() == WAITING
            && let Some((_, longest)) = line.streams.pop_first()
        {
            // One that is closed already needs no closing.
            let _ = longest.shutdown(Shutdown::Both);
        }
        let number = line.next;
        line.next += 1;
        line.streams.insert(number, stream);
        Some(Self {
            shared: Arc::clone(shared),
            number,
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let line = self.shared.line.lock();
        let mut line = line.unwrap_or_else(PoisonError::into_inner);
        line.streams.remove(&self.number);
    }
}

/// Connections that wait, by their numbers in the order in which they came.
#[derive(Default)]
struct Line {
    next: u64,
    streams: BTreeMap<u64, TcpStream>,
}

/// One connection: a request and its answer.
fn serve(stream: &TcpStream, waiting: Waiting) {
    let shared = Arc::clone(&waiting.shared);
    let request = match http::read(stream, shared.patience.request) {
        Ok(request) => request,
        Err(http::Unread::Bad(status)) => {
            refuse_request(stream, &shared, &Answer::of(status));
            return;
        }
        Err(http::Unread::Lost) => return,
    };
    if let Err(refusal) = shared.guard.check(&request) {
        refuse_request(stream, &shared, &refuse(&refusal));
        return;
    }
    let Some(_seat) = Place::take(&shared, Seat::Connection) else {
        refuse_request(
            stream,
            &shared,
            &Answer::text(StatusCode::SERVICE_UNAVAILABLE, BUSY),
        );
        return;
    };
    drop(waiting);
    // A client that is gone or too slow is cut off: there is nobody to tell.
    let _ = match answer(&shared, &request) {
        Reply::Answer(answer) => {
            let is_head = request.is_head;
            let done = http::write(stream, &answer, is_head, shared.patience.answer);
            http::linger(stream);
            done
        }
        Reply::Events(view) => match Place::take(&shared, Seat::Watcher) {
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

/// Tells a client that still waits why its request is not answered.
fn refuse_request(stream: &TcpStream, shared: &Shared, answer: &Answer) {
    // One that does not take it is cut off: there is nobody to tell.
    let _ = http::write(stream, answer, false, shared.patience.answer);
    http::linger(stream);
}

/// What a request is answered with.
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
        Route::OfIndex(name) if board.has(&View::One(name.clone())) => Answer::moved(
            StatusCode::PERMANENT_REDIRECT,
            format!("/run/{}/report.html", http::encoded(&name)),
        ),
        Route::Folder(name) if board.has(&View::One(name.clone())) => Answer::moved(
            StatusCode::PERMANENT_REDIRECT,
            format!("/run/{}/", http::encoded(&name)),
        ),
        Route::Events(_) | Route::Page(_) | Route::OfIndex(_) | Route::Folder(_) | Route::None => {
            not_found()
        }
    })
}

fn not_found() -> Answer {
    let page = judge::topics::live::document::message_page(
        "Nothing here",
        "No run of this name is here, or it has no report.",
    );
    Answer::page(page).with(StatusCode::NOT_FOUND)
}

fn refuse(refusal: &Refusal) -> Answer {
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

/// What a path asks for; the names in it are looked up among the runs, never among files.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Page(View),
    Events(View),
    Report(String),
    /// What the plans of a night come to.
    Index,
    /// A report, where the index of a night has it.
    OfIndex(String),
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
        ["", name, "report.html"] => named(name).map_or(Route::None, Route::OfIndex),
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
