//! The load generator: simulated clients that check every answer. Knows no kernels.
//!
//! One thread per core, nothing shared while they run but a page of figures handed over each second, merged at the end:
//! ```text
//! Traffic --> thread: engine (sockets) <--> clients (what is next) --> tally --+
//!         --> thread: ...                                                      +--> LoadResult
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

use record::latency::Packed;
use record::load::Fault;

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

/// How bytes read as an HTTP/1.1 answer when they come in pieces of this size: the length of the body and of the
/// whole answer, `None` where more must come, or what is wrong. Clients read the same way; this is for those who
/// try to confuse them.
pub fn read_answer(bytes: &[u8], piece: usize) -> Result<Option<(u64, usize)>, Fault> {
    answer::read_in_pieces(bytes, piece)
}
