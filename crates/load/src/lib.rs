//! The load generator: simulated clients that check every response. Knows no kernels.
//!
//! One thread per core. While they run, threads share nothing but a bucket of figures that each
//! hands over every second. The rest is merged at the end:
//! ```text
//! Traffic --> thread: engine (sockets) <--> clients (next action) --> counters --+
//!         --> thread: ...                                                     +--> LoadResult
//! ```
//! Threads run in the caller's network namespace.

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
mod window;

use record::load::Fault;

/// Parses `bytes` as one HTTP/1.1 response that arrives in pieces of `piece` bytes, as clients do.
/// For fuzz tests. Returns the lengths of the body and of the whole response, or `None` if more
/// bytes are needed.
pub fn read_response(bytes: &[u8], piece: usize) -> Result<Option<(u64, usize)>, Fault> {
    response::read_in_pieces(bytes, piece)
}
