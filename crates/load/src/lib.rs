//! The load generator: simulated clients that check every response. Knows no kernels.
//!
//! One thread per core, nothing shared while they run but a bucket of figures handed over each
//! second, merged at the end:
//! ```text
//! Traffic --> thread: engine (sockets) <--> clients (what is next) --> counters --+
//!         --> thread: ...                                                      +--> LoadResult
//! ```
//! Threads take over the caller's network namespace.

mod bandwidth;
pub mod client_limits;
mod clients;
pub mod clock;
mod closing;
mod counters;
mod epoll;
pub mod exchange;
pub mod expect;
mod host;
pub mod hosts;
pub mod http2;
pub mod merge;
pub mod null_server;
pub mod part;
mod prng;
pub mod probe;
pub mod ramp;
mod response;
pub mod run;
pub mod schedule;
pub mod script;
pub mod server;
mod stall;
mod sys;
mod target;
mod thread;
mod timeline;
mod timer_wheel;
pub mod tls;
pub mod traffic;
mod uring;
pub mod url;

use record::latency::Packed;
use record::load::{Fault, Second};

/// Told once a second while the load runs, and shortly after the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// Seconds since the load began, warm-up included.
    pub second: u32,
    /// Successful responses so far, warm-up included.
    pub ok: u64,
    /// Faults so far, warm-up included, but for the clients' own.
    pub faults: u64,
    /// Latencies from the scheduled send time of the successful responses of this second alone.
    pub latency: Packed,
    /// Whether some of this second is in the window.
    pub counting: bool,
    /// Seconds of the window that have ended since the last tick, and parts of earlier ones that came late: all of them
    /// together are the timeline, but for the seconds that were not over when the load ended.
    pub ended: Vec<Second>,
}

/// How bytes read as an HTTP/1.1 response when they come in pieces of this size: the length of the
/// body and of the whole response, `None` where more must come, or what is wrong. Clients read the
/// same way; this is for those who try to confuse them.
pub fn read_response(bytes: &[u8], piece: usize) -> Result<Option<(u64, usize)>, Fault> {
    response::read_in_pieces(bytes, piece)
}
