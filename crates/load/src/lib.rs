//! The load generator: simulated clients that check every answer. Knows no kernels.
//!
//! One thread per core, nothing shared while they run but a page of figures handed over each second, merged at the end:
//! ```text
//! Load --> thread: engine (sockets) <--> clients (what is next) --> tally --+
//!      --> thread: ...                                                      +--> LoadResult
//! ```
//! Threads take over the caller's network namespace.

mod answer;
pub mod blame;
mod clients;
pub mod climb;
pub mod clock;
mod dice;
pub mod drive;
mod epoll;
pub mod expect;
mod host;
pub mod http2;
mod line;
pub mod merge;
pub mod schedule;
pub mod script;
mod sys;
mod tally;
mod target;
mod thread;
mod timeline;
pub mod tls;
pub mod traffic;
mod uring;
pub mod url;
mod wheel;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use record::latency::Packed;
use record::load::{Fault, LoadResult};

use crate::expect::Expect;
use crate::schedule::{Schedule, Think};
use crate::traffic::{Cpus, End, EngineChoice, Exchange, Mix, Protocol, Traffic};

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

/// Told once a second while the load runs, and shortly after the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// Seconds since the load began, warm-up included.
    pub second: u32,
    /// Right answers so far, warm-up included.
    pub ok: u64,
    /// Faults so far, warm-up included.
    pub faults: u64,
    /// Latencies from the planned instant of the right answers of this second alone.
    pub latency: Packed,
    /// Whether some of this second is in the window.
    pub counting: bool,
}

/// Runs the load and returns what the clients saw in the window; see `drive::run`.
pub fn run(load: &Load, stop: &AtomicBool, on_tick: &mut dyn FnMut(Tick)) -> Result<LoadResult> {
    drive::run(&load.traffic(), stop, on_tick)
}

/// How bytes read as an HTTP/1.1 answer when they come in pieces of this size: the length of the body and of the
/// whole answer, `None` where more must come, or what is wrong. Clients read the same way; this is for those who
/// try to confuse them.
pub fn read_answer(bytes: &[u8], piece: usize) -> Result<Option<(u64, usize)>, Fault> {
    answer::read_in_pieces(bytes, piece)
}

impl Load {
    /// The same load with all its parts named.
    pub fn traffic(&self) -> Traffic {
        let exchange = |request: &Request| Exchange::get(&request.path, request.expect.clone());
        Traffic {
            server: self.server,
            host: self.host.clone(),
            protocol: Protocol::Http1,
            tls: None,
            mix: Mix::Round(self.requests.iter().map(exchange).collect()),
            schedule: Schedule::Closed { think: Think::NONE },
            connections: self.connections,
            keep_alive: self.keep_alive,
            sources: Vec::new(),
            bits_per_s: Vec::new(),
            threads: self.threads,
            deadline: self.deadline,
            warmup: self.warmup,
            end: End::After(self.window),
            seed: 0,
            // The same on every kernel: arms must not differ in their clients.
            engine: EngineChoice::Epoll,
            stamps: false,
            cpus: Cpus::Shared,
        }
    }
}
