//! Serves all runs below a directory as pages that update themselves. Only GET and HEAD are allowed, and the path of a request
//! is never used as the path of a file.
//!
//! ```text
//! accept -> a task for each connection, up to a limit
//!   hyper    reads one request and writes its answer
//!   guard    checks host and token
//!   board    the state of the runs, shared by all connections
//!   events   sends changed parts as server-sent events (HTML, section 9.2)
//! ```
//! Each connection is closed after its answer. One thread drives all connections; other threads read and judge runs.

mod answer;
mod board;
mod events;
mod guard;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::header::{HeaderValue, SET_COOKIE, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use record::live::Callbacks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, LocalSet, spawn_blocking, spawn_local};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use answer::Answer;
use board::{Board, View};
pub use guard::Guard;
use guard::Refusal;

/// Limit on connections with an admitted request, including those that wait for events.
const MAX_CONNECTIONS: usize = 64;

/// Limit on connections without an admitted request.
const MAX_WAITING: usize = 64;

/// Limit on connections that wait for events.
const MAX_WATCHERS: usize = 48;

/// Limits on the head of a request.
const MAX_HEAD_BYTES: usize = 8 << 10;
const MAX_FIELDS: usize = 64;

/// Limits on discarding what a client still sends after its request. Without this, closing the connection could destroy the
/// answer (RFC 9112, section 9.6).
const MAX_LINGER_BYTES: u64 = 64 << 10;
const LINGER_TIME: Duration = Duration::from_millis(500);

/// Pause after an error of `accept`, for instance if there is no free file descriptor.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The listening server.
pub struct Server {
    listener: TcpListener,
    runtime: Runtime,
    board: Arc<Board>,
    guard: Guard,
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
        let mut runtime = Builder::new_current_thread();
        runtime.enable_all().max_blocking_threads(MAX_CONNECTIONS);
        let runtime = runtime.build().context("cannot wait for connections")?;
        let listener = runtime.block_on(TcpListener::bind(address));
        let listener = listener.with_context(|| {
            format!("cannot listen: {address} (name another address with --listen)")
        })?;
        Ok(Self {
            listener,
            runtime,
            board: Arc::new(board),
            guard,
            patience,
        })
    }

    /// The address with the actual port.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until the program ends.
    pub fn run(self) -> ! {
        let shared = Rc::new(Shared {
            board: self.board,
            guard: self.guard,
            patience: self.patience,
            waiting: RefCell::default(),
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            watchers: Arc::new(Semaphore::new(MAX_WATCHERS)),
        });
        LocalSet::new().block_on(&self.runtime, async {
            let mut number = 0;
            loop {
                let Ok((stream, _)) = self.listener.accept().await else {
                    sleep(RETRY_DELAY).await;
                    continue;
                };
                number += 1;
                let task = spawn_local(serve(stream, Rc::clone(&shared), number));
                shared.enter(number, task.abort_handle());
            }
        })
    }
}

/// State that all connections share.
struct Shared {
    board: Arc<Board>,
    guard: Guard,
    patience: Patience,
    /// Connections without an admitted request, by number, oldest first.
    waiting: RefCell<BTreeMap<u64, AbortHandle>>,
    connections: Arc<Semaphore>,
    watchers: Arc<Semaphore>,
}

impl Shared {
    /// Adds a connection without an admitted request. If there are too many, the oldest one is closed for a new one, so clients
    /// without the token cannot keep others out.
    fn enter(&self, number: u64, task: AbortHandle) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() == MAX_WAITING
            && let Some((_, oldest)) = waiting.pop_first()
        {
            // The task ends when it is polled next.
            oldest.abort();
        }
        waiting.insert(number, task);
    }
}

/// A connection: one request and its answer.
struct Exchange {
    shared: Rc<Shared>,
    number: u64,
    /// The slots that it holds until it is closed.
    slots: RefCell<Vec<OwnedSemaphorePermit>>,
    /// Where to send the time at which a client is cut off.
    cut_off: Cell<Option<oneshot::Sender<Instant>>>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.shared.waiting.borrow_mut().remove(&self.number);
    }
}

/// Serves one connection.
async fn serve(stream: TcpStream, shared: Rc<Shared>, number: u64) {
    let (cut_off, limit) = oneshot::channel();
    let exchange = Rc::new(Exchange {
        shared: Rc::clone(&shared),
        number,
        slots: RefCell::default(),
        cut_off: Cell::new(Some(cut_off)),
    });
    let service = service_fn(|request: hyper::Request<_>| {
        let exchange = Rc::clone(&exchange);
        Box::pin(async move {
            let (request, _) = request.into_parts();
            Ok::<_, Infallible>(exchange.answer(&request).await)
        })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.patience.request)
        .keep_alive(false)
        .max_headers(MAX_FIELDS)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_HEAD_BYTES)
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut is_late = pin!(async {
        match limit.await {
            Ok(at) => sleep_until(at).await,
            Err(_) => pending().await,
        }
    });
    let is_answered = poll_fn(|context| {
        if connection.poll_without_shutdown(context).is_ready() {
            return Poll::Ready(true);
        }
        is_late.as_mut().poll(context).map(|()| false)
    });
    if is_answered.await {
        linger(connection.into_parts().io.into_inner()).await;
    }
}

/// Closes a connection so that the client receives the whole answer.
async fn linger(mut stream: TcpStream) {
    let discard = async {
        stream.shutdown().await?;
        let mut rest = stream.take(MAX_LINGER_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // The client may be gone.
    let _ = timeout(LINGER_TIME, discard).await;
}

const BUSY: &str = "too many connections: close pages that nobody looks at";

impl Exchange {
    /// The answer to a request. The client must take it in time.
    async fn answer(&self, request: &Parts) -> Answer {
        let patience = self.shared.patience.answer;
        let mut cut_off = self.cut_off.take();
        let answer = match self.reply(request).await {
            Reply::Answer(answer) => answer,
            Reply::Events(view) if self.take_slot(&self.shared.watchers) => {
                let (events, receiver) = mpsc::channel(1);
                let cut_off = cut_off.take();
                let sent = events::send(events, Arc::clone(&self.shared.board), view, patience);
                spawn_local(async move {
                    sent.await;
                    cut_off.map(|cut_off| cut_off.send(Instant::now()))
                });
                answer::events(receiver)
            }
            Reply::Events(_) => answer::text(StatusCode::SERVICE_UNAVAILABLE, BUSY),
        };
        if let Some(cut_off) = cut_off {
            // The connection waits for it.
            let _ = cut_off.send(Instant::now() + patience);
        }
        answer
    }

    fn take_slot(&self, slots: &Arc<Semaphore>) -> bool {
        let slot = Arc::clone(slots).try_acquire_owned();
        slot.map(|slot| self.slots.borrow_mut().push(slot)).is_ok()
    }

    async fn reply(&self, request: &Parts) -> Reply {
        if let Some(answer) = answer::refuse_invalid(request) {
            return Reply::Answer(answer);
        }
        if let Err(refusal) = self.shared.guard.check(request) {
            return Reply::Answer(refusal_answer(&refusal));
        }
        if !self.take_slot(&self.shared.connections) {
            return Reply::Answer(answer::text(StatusCode::SERVICE_UNAVAILABLE, BUSY));
        }
        self.shared.waiting.borrow_mut().remove(&self.number);
        let route = route(request.uri.path());
        let is_head = request.method == Method::HEAD;
        let board = Arc::clone(&self.shared.board);
        let reply = spawn_blocking(move || reply(&board, route, is_head)).await;
        let failed = || answer::status_only(StatusCode::INTERNAL_SERVER_ERROR);
        reply.unwrap_or_else(|_| Reply::Answer(failed()))
    }
}

/// The reply to a request.
enum Reply {
    Answer(Answer),
    Events(View),
}

/// The reply to an admitted request. It may read and judge a run.
fn reply(board: &Board, route: Route, is_head: bool) -> Reply {
    let has = |name: &String| board.has(&View::One(name.clone()));
    let moved = |to: &str| answer::moved(StatusCode::PERMANENT_REDIRECT, to);
    Reply::Answer(match route {
        Route::Events(_) if is_head => answer::text(StatusCode::METHOD_NOT_ALLOWED, "GET it"),
        Route::Events(view) if board.has(&view) => return Reply::Events(view),
        Route::Page(view) if board.has(&view) => answer::page(board.page(&view)),
        Route::Report(name) => board.report(&name).map_or_else(not_found, answer::report),
        Route::Index => board.index().map_or_else(not_found, answer::report),
        Route::NightReport(name) if has(&name) => {
            moved(&format!("/run/{}/report.html", answer::encoded(&name)))
        }
        Route::Folder(name) if has(&name) => moved(&format!("/run/{}/", answer::encoded(&name))),
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
    let mut answer = answer::page(page);
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}

fn refusal_answer(refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::Host(host) => answer::text(
            StatusCode::MISDIRECTED_REQUEST,
            &format!("not a host of this server: {host:?} (start it with --host {host})"),
        ),
        Refusal::Token => {
            let answer = answer::text(
                StatusCode::UNAUTHORIZED,
                "token needed: open the address that was printed at the start, with ?token=",
            );
            answer::with(answer, WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        }
        Refusal::Welcome { to, cookie } => {
            let cookie = HeaderValue::from_str(cookie).expect("the cookie is visible ASCII");
            answer::with(answer::moved(StatusCode::SEE_OTHER, to), SET_COOKIE, cookie)
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
    let named = |name: &str| answer::decoded(name).filter(|name| !name.is_empty());
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
