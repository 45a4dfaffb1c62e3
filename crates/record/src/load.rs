//! What simulated clients saw: counts that add up, latencies, a second-by-second timeline.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::latency::{Latency, Packed};
use crate::trend::Trend;

/// Why a request did not count as served. The client's own faults stand apart from the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The server refused the connection, or it could not be made.
    ConnectFailed,
    /// The connection was reset.
    Reset,
    /// The server closed before the response was whole.
    EarlyClose,
    /// The request could not be written.
    WriteFailed,
    /// No connection within the deadline.
    ConnectTimeout,
    /// No first byte within the deadline.
    FirstByteTimeout,
    /// The response was not whole within the deadline.
    WholeTimeout,
    /// A status other than the expected one.
    BadStatus,
    /// A body of another length than expected.
    BadLength,
    /// A body of the right length and the wrong content.
    BadContent,
    /// Not HTTP.
    Malformed,
    /// The client had no source port left.
    ClientNoPort,
    /// The client had no descriptor left.
    ClientNoDescriptor,
    /// The client had no memory left.
    ClientNoMemory,
    /// The client was too late to send it.
    ClientLate,
}

impl Fault {
    /// Its name in records: `early-close`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnectFailed => "connect-failed",
            Self::Reset => "reset",
            Self::EarlyClose => "early-close",
            Self::WriteFailed => "write-failed",
            Self::ConnectTimeout => "connect-timeout",
            Self::FirstByteTimeout => "first-byte-timeout",
            Self::WholeTimeout => "whole-timeout",
            Self::BadStatus => "bad-status",
            Self::BadLength => "bad-length",
            Self::BadContent => "bad-content",
            Self::Malformed => "malformed",
            Self::ClientNoPort => "client-no-port",
            Self::ClientNoDescriptor => "client-no-descriptor",
            Self::ClientNoMemory => "client-no-memory",
            Self::ClientLate => "client-late",
        }
    }

    /// Whether the client, not the server, is to blame.
    pub fn is_clients_own(self) -> bool {
        matches!(
            self,
            Self::ClientNoPort | Self::ClientNoDescriptor | Self::ClientNoMemory | Self::ClientLate
        )
    }
}

/// One second of a load run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Start of the second, in milliseconds since the window opened.
    pub at_ms: u64,
    /// Requests with the expected response in this second.
    pub ok: u64,
    /// Requests that ended in a fault.
    pub faults: u64,
    /// Body bytes of successful requests.
    pub body_bytes: u64,
    /// Latencies of successful requests whose response came in this second, whenever they were due,
    /// to two significant digits. Those that come after the window are in no second.
    #[serde(default, skip_serializing_if = "Packed::is_empty")]
    pub latency: Packed,
}

/// The result of one load run, window only: warm-up is left out.
///
/// `planned = ok + sum of faults + unsent` holds exactly; for a closed loop `planned` counts the
/// requests begun in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Length of the window as measured, in nanoseconds.
    pub window_ns: u64,
    /// Requests that the schedule asked for.
    pub planned: u64,
    /// Requests answered with the right status, length and content.
    pub ok: u64,
    /// Successful requests that came within the window, whenever they were due: what the server did in it. `None` in records
    /// that older versions wrote.
    #[serde(default)]
    pub ok_in_window: Option<u64>,
    /// Requests that were due and had no outcome yet when the window opened.
    #[serde(default)]
    pub backlog_open: u64,
    /// Requests that were due and had no outcome yet when the window closed.
    #[serde(default)]
    pub backlog_close: u64,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Faults by class; a class that did not occur is absent.
    pub faults: BTreeMap<Fault, u64>,
    /// Connections asked for.
    pub connections_asked: u64,
    /// Connections opened, over the whole window.
    pub connections_opened: u64,
    /// Most connections open at once since the load began; less than asked tells of a limit.
    #[serde(default)]
    pub connections_held: u64,
    /// Body bytes of successful requests.
    pub body_bytes: u64,
    /// Requests answered rightly, by the server's address, where connections go to several; all of these are there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ok_by_address: BTreeMap<String, u64>,
    /// Latency from the scheduled send time (so corrected for coordinated omission) to the last byte, in nanoseconds, successful requests only.
    pub latency: Latency,
    /// Time from sending a request, connecting left out, to the last byte, in nanoseconds, successful requests only.
    #[serde(default)]
    pub service: Latency,
    /// Send delay: how late the client itself was to begin requests that were due, in nanoseconds; empty for clients
    /// that go on at once. Waiting for a free connection is the server's doing and not part of it.
    #[serde(default)]
    pub lateness: Latency,
    /// How long bytes that had come waited for the client to read them, in nanoseconds: from the kernel's receive
    /// stamp to the read, on one read in 64. This much of a latency is the client's own. Empty where stamps are not
    /// taken: in trials, with `io_uring` and HTTP/2, and where the kernel refuses.
    #[serde(default)]
    pub client_delay: Latency,
    /// Relative error of the speed of slow links, in millionths, one for each successful response read over one: how far
    /// the time from its first byte to its last is from what its bytes take at the speed asked for. Shorter and
    /// longer count alike. Empty where links are not slow.
    #[serde(default)]
    pub speed_error_ppm: Latency,
    /// Requests sent again on a new connection because the server closed a kept one before it had answered
    /// anything, which RFC 9112 allows it at any time (section 9.3.1). They are faults only if they fail then.
    #[serde(default)]
    pub repeated: u64,
    /// Requests given up because the user ended the run early; not part of `planned`.
    #[serde(default)]
    pub withdrawn: u64,
    /// Sessions that ended in the window, where clients play sessions.
    #[serde(default)]
    pub sessions: u64,
    /// Visitors who got a connection in the window, whenever they were due, where they arrive at a
    /// rate.
    #[serde(default)]
    pub sessions_begun: u64,
    /// Whether latencies rose while the window lasted, of an open loop: a queue that grows shows in
    /// them, and requests that merely take long do not.
    #[serde(default, skip_serializing_if = "Trend::is_empty")]
    pub trend: Trend,
    /// The window second by second.
    pub timeline: Vec<Second>,
    /// CPU time of each client thread in the window, in nanoseconds.
    pub client_cpu_ns: Vec<u64>,
    /// Time that each client thread was ready to run in the window and had no CPU, for other threads or for a quota, in
    /// nanoseconds. Empty in records of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_wait_ns: Vec<u64>,
    /// CPUs that client threads could run on, of those of their host: `0-1 of 2`. Empty where nobody noted it.
    #[serde(default)]
    pub client_cpus: String,
    /// CPU time that the client's host had while the load ran, warm-up and end included, in nanoseconds, all its
    /// CPUs together; 0 where nobody noted it.
    #[serde(default)]
    pub host_cpu_ns: u64,
    /// How much of that the hypervisor gave to others (steal).
    #[serde(default)]
    pub stolen_ns: u64,
    /// How the engine waits for sockets: `epoll`, `io_uring`.
    pub engine: String,
    /// Why it is not the faster one; empty when it is.
    #[serde(default)]
    pub engine_note: String,
}

impl LoadResult {
    /// All faults together.
    pub fn fault_count(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Share of the window that the busiest client thread ran, or was ready to run and had no CPU; 0 without a thread.
    pub fn client_busy(&self) -> f64 {
        let waits = self.client_wait_ns.iter().chain(std::iter::repeat(&0));
        let busy = self.client_cpu_ns.iter().zip(waits);
        let most = busy.map(|(cpu, wait)| cpu.saturating_add(*wait)).max();
        most.unwrap_or(0) as f64 / self.window_ns.max(1) as f64
    }

    /// Share of the client host's CPU time that the hypervisor gave to others.
    pub fn stolen(&self) -> f64 {
        self.stolen_ns as f64 / self.host_cpu_ns.max(1) as f64
    }

    /// Successful requests that came within the window: what the server did in it, and what its costs are shared by.
    pub fn served(&self) -> u64 {
        self.ok_in_window.unwrap_or(self.ok)
    }

    /// Successful requests per second: those that came within the window. One that came later is late, and no part of what the
    /// server did in the window. Records of older versions know only how many requests of the window were answered.
    pub fn ok_per_s(&self) -> f64 {
        self.served() as f64 / self.seconds()
    }

    /// Visitors who got a connection, per second of the window.
    pub fn sessions_begun_per_s(&self) -> f64 {
        self.sessions_begun as f64 / self.seconds()
    }

    /// Visitors who left, per second of the window.
    pub fn sessions_ended_per_s(&self) -> f64 {
        self.sessions as f64 / self.seconds()
    }

    /// Requests per second by which those that waited became more between the window's two ends; negative when they
    /// became fewer.
    pub fn backlog_growth_per_s(&self) -> f64 {
        (self.backlog_close as f64 - self.backlog_open as f64) / self.seconds()
    }

    /// Length of the window as measured.
    pub fn seconds(&self) -> f64 {
        self.window_ns as f64 / 1e9
    }
}
