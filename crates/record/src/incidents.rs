//! Incidents beside the requests: stalls of the client, connections that a server left open, streams that it refused.

use serde::{Deserialize, Serialize};

/// Counts of one load run, window only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incidents {
    /// Stalls: a client thread returned to its sockets too late, because the process was stopped, the machine was paused, or the thread
    /// had no CPU.
    pub stalls: u64,
    /// Total length of the stalls of all threads, in nanoseconds.
    pub stalled_ns: u64,
    /// The longest stall, in nanoseconds.
    pub longest_stall_ns: u64,
    /// Requests that were due or in progress during a stall. Their latencies include part of it.
    pub stalled_requests: u64,
    /// Part of `backlog_close` that became due during a stall.
    pub stalled_backlog: u64,
    /// Connections that the server left open after the last response, and the client closed. No request waited for them.
    pub left_open: u64,
    /// Streams that the server refused, and requests that it did not accept before it closed a connection. Each was sent again.
    pub refused_streams: u64,
}

impl Incidents {
    /// Adds the incidents of another thread, host or run.
    pub fn add(&mut self, other: &Self) {
        // All fields by name, so that a new one is not forgotten.
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
