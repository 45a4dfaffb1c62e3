//! What lay between a server and its figures: the clients and the network of one trial, and what the same clients get from a
//! server that costs nothing; and what one client fewer does to them.

use serde::{Deserialize, Serialize};

/// Clients and network of one trial over its window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPath {
    /// How requests were sent.
    pub pace: LoadPace,
    /// Requests that were sent late by so much that it shows in their latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_late: Option<SentLate>,
    /// Whether the clients run on the server's CPUs.
    pub is_shared: bool,
    /// CPU time of clients and services together; `None` where the services are elsewhere.
    pub cpu_ns: Option<u64>,
    /// The CPUs that clients may run on.
    pub cpus: Vec<ClientCpu>,
    /// The ends of the network that could be looked at, the clients' first.
    pub ends: Vec<NetworkEnd>,
}

/// How clients send their requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadPace {
    /// Each waits for its answer, and sends the next request at once: a closed loop.
    #[default]
    Closed,
    /// Each waits for its answer, and then for a while.
    Thinking,
    /// At a rate that the server kept up with.
    Kept,
    /// At a rate that the server did not keep up with.
    Behind,
    /// At a rate that the clients had too few connections for.
    TooFewConnections,
}

/// A send delay that shows in the latency: both at their 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentLate {
    /// From when a request was due to when it was sent, in nanoseconds.
    pub send_delay_ns: u64,
    /// From when a request was due to the end of its response, in nanoseconds.
    pub latency_ns: u64,
}

/// A CPU that clients may run on, as shares of the window from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCpu {
    /// Its number.
    pub cpu: u32,
    /// Time without anything to do.
    pub idle: f64,
    /// Time in interrupts, soft ones included: what comes from the network is received there.
    pub interrupts: f64,
}

/// One end of the network over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkEnd {
    /// Whose.
    pub side: Side,
    /// TCP segments sent, those sent again left out.
    pub segments_sent: u64,
    /// TCP segments received.
    pub segments_received: u64,
    /// TCP segments sent again.
    pub retransmitted: u64,
    /// TCP segments that came before one that was sent earlier: the earlier one was lost, or overtaken.
    pub out_of_order: u64,
    /// Packets that the kernel dropped because its queue for received ones was full (`softnet_stat`); all interfaces together.
    pub softnet_dropped: u64,
    /// Its interfaces, the loopback left out.
    pub links: Vec<Link>,
}

/// Whose end of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The clients'.
    Clients,
    /// The server's.
    Server,
}

/// A network interface over the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Received packets that were dropped for want of room, those that the interface itself missed (`rx_missed_errors`)
    /// included.
    pub receive_dropped: u64,
    /// Packets that its queueing discipline dropped, warm-up included; `None` where tc(8) could not tell.
    pub queue_dropped: Option<u64>,
    /// Its speed; `None` where it has none of its own, as a virtual one.
    pub bits_per_s: Option<u64>,
}

/// What clients get from a null server: one of bakeoff's own that answers at once, through the same network, with as many bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Successful requests per second.
    pub requests_per_s: f64,
    /// Bytes of their bodies per second.
    pub body_bytes_per_s: f64,
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// Share of the window that the busiest client thread ran or waited for a CPU.
    pub client_busy: f64,
    /// Share of the window that a client thread waited for a CPU, of that which waited most.
    pub client_waited: f64,
    /// Share of the CPU time of the clients' CPUs that was idle.
    pub cpu_idle: f64,
    /// Whether the null server ran on the clients' CPUs.
    pub is_shared: bool,
    /// CPU time of a request, in nanoseconds, clients and null server together; `None` where that is elsewhere.
    pub cpu_ns_per_request: Option<f64>,
}

/// How the measurement of a ceiling ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CeilingOutcome {
    /// It was measured.
    Measured(Ceiling),
    /// It could not be.
    Failed {
        /// What happened, in words.
        detail: String,
    },
}

/// What clients are counted in where one of them is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientUnit {
    /// Hosts that share the clients.
    Host,
    /// Threads of the one host that has them.
    Thread,
}

/// A trial with one client fewer, at the same load. No verdict counts it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneFewer {
    /// What was left out.
    pub unit: ClientUnit,
    /// How many were left.
    pub left: u32,
    /// Name of the workload's primary metric.
    pub metric: String,
    /// Its unit.
    pub metric_unit: String,
    /// Its figure.
    pub value: f64,
}

/// How a trial with one client fewer ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OneFewerOutcome {
    /// It was measured.
    Measured(OneFewer),
    /// It gave no figure.
    Failed {
        /// What happened, in words.
        detail: String,
    },
}
