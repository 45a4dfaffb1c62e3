//! What happened beside the requests: times at which the client itself was held up, connections that
//! a server left open, streams that it refused.

use serde::{Deserialize, Serialize};

/// Counts of one load run, window only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incidents {
    /// Times at which a client thread was back at its sockets too late: the process was stopped,
    /// the machine was paused, or the thread had no CPU.
    pub stalls: u64,
    /// How long these were together, all threads, in nanoseconds.
    pub stalled_ns: u64,
    /// The longest of these, in nanoseconds.
    pub longest_stall_ns: u64,
    /// Requests that were due or under way while a client thread was held up. Their latencies hold
    /// some of that time.
    pub stalled_requests: u64,
    /// Of `backlog_close`, the requests that were due while a client thread was held up.
    pub stalled_backlog: u64,
    /// Connections that the server left open after the last response on them, and that the client
    /// closed. Nothing waited for them.
    pub left_open: u64,
    /// Streams that the server refused, and requests that it did not take before it ended a
    /// connection. Each was sent again.
    pub refused_streams: u64,
}

impl Incidents {
    /// Adds those of another thread, host or run.
    pub fn add(&mut self, other: &Self) {
        // All fields by name: a new one must be thought of here.
        let Self {
            stalls,
            stalled_ns,
            longest_stall_ns,
            stalled_requests,
            stalled_backlog,
            left_open,
            refused_streams,
        } = other;
        self.stalls += stalls;
        self.stalled_ns += stalled_ns;
        self.longest_stall_ns = self.longest_stall_ns.max(*longest_stall_ns);
        self.stalled_requests += stalled_requests;
        self.stalled_backlog += stalled_backlog;
        self.left_open += left_open;
        self.refused_streams += refused_streams;
    }
}
