//! The load generator: simulated clients that check every answer. Knows no kernels.
//!
//! One thread per core, nothing shared while they run, merged at the end:
//! ```text
//! Load --> thread: engine (sockets) <--> clients (what is next) --> tally --+
//!      --> thread: ...                                                      +--> LoadResult
//! ```
//! Threads take over the caller's network namespace.

mod answer;
mod clients;
mod clock;
mod epoll;
pub mod expect;
mod sys;
mod tally;
mod thread;
mod wheel;

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use record::load::LoadResult;

use crate::clients::{Clients, Order, Rules};
use crate::clock::now_ns;
use crate::epoll::Epoll;
use crate::expect::Expect;
use crate::tally::{Tally, Window};
use crate::thread::{Engine as _, Progress};

/// One URL of the mix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Path and query.
    pub path: String,
    /// What a right answer looks like.
    pub expect: Expect,
}

/// A load run: a closed loop of `connections` clients, each with one request under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The server.
    pub server: SocketAddr,
    /// Value of the `Host` header.
    pub host: String,
    /// Requests; each connection goes round them, starting at its own place.
    pub requests: Vec<Request>,
    /// Connections open at once.
    pub connections: u32,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Client threads; never more than connections.
    pub threads: u32,
    /// Time that a request may take, connecting included.
    pub deadline: Duration,
    /// Load that is not counted.
    pub warmup: Duration,
    /// Load that is counted.
    pub window: Duration,
}

/// Told once a second while the load runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Seconds since the load began, warm-up included.
    pub second: u32,
    /// Right answers so far, warm-up included.
    pub ok: u64,
    /// Faults so far, warm-up included.
    pub faults: u64,
    /// Whether the window is open.
    pub counting: bool,
}

/// Runs the load and returns what the clients saw in the window.
///
/// A request counts when it begins in the window. The load goes on after the window, uncounted, until every
/// request that counts has an outcome, so the last ones are served under the same load as the rest.
///
/// Setting `stop` ends the run early: the window closes at that instant, and the result is right for the
/// shorter window. Errors are mistakes in `load`, resources the system refuses, and a stop before the window.
pub fn run(load: &Load, stop: &AtomicBool, on_tick: &mut dyn FnMut(Tick)) -> Result<LoadResult> {
    check(load)?;
    let orders: Vec<Order> = load
        .requests
        .iter()
        .map(|request| order(load, request))
        .collect();
    let threads = load.threads.min(load.connections);
    let start_ns = now_ns();
    let open_ns = start_ns + clock::ns(load.warmup);
    let window = Window {
        open_ns,
        close_ns: open_ns + clock::ns(load.window),
    };
    let rules = Rules {
        keep_alive: load.keep_alive,
        deadline_ns: clock::ns(load.deadline),
        start_ns,
    };
    let mut crews = Vec::new();
    for thread in 0..threads {
        let numbers = share(load.connections, threads, thread);
        let engine = Epoll::new(load.server, numbers.len())?;
        let clients = Clients::new(&orders, numbers, rules, Tally::new(window));
        crews.push((clients, engine));
    }
    let tallies = drive(crews, window, start_ns, stop, on_tick)?;
    let result = tally::merge(&tallies, load.connections, Epoll::NAME);
    ensure!(
        result.window_ns > 0,
        "stopped in the warm-up: nothing was counted"
    );
    Ok(result)
}

fn check(load: &Load) -> Result<()> {
    ensure!(
        !load.requests.is_empty(),
        "no requests to send (name at least one path)"
    );
    ensure!(
        load.connections > 0,
        "too few connections: 0 (ask for at least 1)"
    );
    ensure!(
        load.threads > 0,
        "too few client threads: 0 (ask for at least 1)"
    );
    ensure!(
        !load.window.is_zero(),
        "window too short: 0 s (measure for at least 1ms)"
    );
    ensure!(
        !load.deadline.is_zero(),
        "deadline too short: 0 s (allow at least 1ms)"
    );
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(
        plain(&load.host),
        "host has blanks or controls: {:?}",
        load.host
    );
    for Request { path, .. } in &load.requests {
        let right = path.starts_with('/') && plain(path);
        ensure!(
            right,
            "not a path: {path:?} (begin it with / and escape blanks as %20)"
        );
    }
    Ok(())
}

/// A request as it goes on the wire.
fn order(load: &Load, request: &Request) -> Order {
    let connection = if load.keep_alive {
        ""
    } else {
        "Connection: close\r\n"
    };
    let text = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: bakeoff\r\nAccept: */*\r\n{connection}\r\n",
        request.path, load.host
    );
    Order {
        bytes: text.into_bytes(),
        expect: request.expect.clone(),
    }
}

/// The numbers of a thread's connections: all threads differ by one at most.
fn share(connections: u32, threads: u32, thread: u32) -> Range<u32> {
    let first = |thread: u32| u64::from(connections) * u64::from(thread) / u64::from(threads);
    first(thread) as u32..first(thread + 1) as u32
}

/// Runs one thread per crew and tells of their progress until all have ended.
fn drive(
    crews: Vec<(Clients<'_>, Epoll)>,
    window: Window,
    start_ns: u64,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Tally>> {
    let progress: Vec<Progress> = crews.iter().map(|_| Progress::default()).collect();
    std::thread::scope(|scope| {
        let (busy, all_done) = mpsc::channel::<()>();
        let mut threads = Vec::new();
        for (index, ((clients, engine), progress)) in crews.into_iter().zip(&progress).enumerate() {
            let busy = busy.clone();
            let thread = std::thread::Builder::new()
                .name(format!("client-{index}"))
                .spawn_scoped(scope, move || {
                    let _busy = busy;
                    thread::work(clients, engine, stop, progress)
                })
                .context("cannot start a client thread")?;
            threads.push(thread);
        }
        drop(busy);
        watch(&all_done, &progress, window, start_ns, on_tick);
        threads
            .into_iter()
            .map(|thread| thread.join().expect("client threads do not panic"))
            .collect()
    })
}

/// Tells of the progress once a second until the channel is closed.
fn watch(
    all_done: &mpsc::Receiver<()>,
    progress: &[Progress],
    window: Window,
    start_ns: u64,
    on_tick: &mut dyn FnMut(Tick),
) {
    for second in 1.. {
        let at_ns = start_ns + u64::from(second) * 1_000_000_000;
        let patience = Duration::from_nanos(at_ns.saturating_sub(now_ns()));
        if all_done.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        on_tick(Tick {
            second,
            ok: progress
                .iter()
                .map(|each| each.ok.load(Ordering::Relaxed))
                .sum(),
            faults: progress
                .iter()
                .map(|each| each.faults.load(Ordering::Relaxed))
                .sum(),
            counting: window.contains(at_ns),
        });
    }
}
