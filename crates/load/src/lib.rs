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
mod window;

use record::load::Fault;

/// How bytes read as an HTTP/1.1 response when they come in pieces of this size: the length of the
/// body and of the whole response, `None` where more must come, or what is wrong. Clients read the
/// same way; this is for those who try to confuse them.
pub fn read_response(bytes: &[u8], piece: usize) -> Result<Option<(u64, usize)>, Fault> {
    response::read_in_pieces(bytes, piece)
}
