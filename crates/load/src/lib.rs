//! The load generator: simulated clients that check every answer. Knows no kernels.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use record::load::LoadResult;

/// What a right answer looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// HTTP status.
    pub status: u16,
    /// Body length in bytes.
    pub length: u64,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
}

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
    /// Client threads.
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
pub fn run(load: &Load, stop: &AtomicBool, on_tick: &mut dyn FnMut(Tick)) -> Result<LoadResult> {
    let _ = (load, stop, on_tick);
    anyhow::bail!("not built yet")
}
