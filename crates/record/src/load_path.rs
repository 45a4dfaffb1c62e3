//! The clients and the network of one trial, which affect a server's figures; the clients' rate at a null server; and the effect of one
//! client fewer.

use serde::{Deserialize, Serialize};

/// Clients and network of one trial over its window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPath {
    /// How requests were sent.
    pub pace: LoadPace,
    /// The send delay, if it is large enough to show in the latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_late: Option<SentLate>,
    /// Whether the clients run on the server's CPUs.
    pub is_shared: bool,
    /// Total CPU time of clients and services; `None` if the services run elsewhere.
    pub cpu_ns: Option<u64>,
    /// The CPUs on which clients may run.
    pub cpus: Vec<ClientCpu>,
    /// Known ends of the network, the clients' first.
    pub ends: Vec<NetworkEnd>,
}

/// How clients send their requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadPace {
    /// Closed loop: each client sends its next request as soon as it has the response.
    #[default]
    Closed,
    /// Closed loop with think time.
    Thinking,
    /// At a fixed rate, and the server kept up.
    Kept,
    /// At a fixed rate, and the server fell behind.
    Behind,
    /// At a fixed rate, and the clients had too few connections.
    TooFewConnections,
}

/// Send delay and latency, both at the 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentLate {
    /// From the scheduled send time to the actual one, in nanoseconds.
    pub send_delay_ns: u64,
    /// From the scheduled send time to the end of the response, in nanoseconds.
    pub latency_ns: u64,
}

/// A CPU on which clients may run; times are shares of the window from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCpu {
    /// Its number.
    pub cpu: u32,
    /// Idle time.
    pub idle: f64,
    /// Time in interrupts, including soft interrupts, which receive packets.
    pub interrupts: f64,
}

/// One end of the network over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkEnd {
    /// The side.
    pub side: Side,
    /// TCP segments sent, without retransmissions.
    pub segments_sent: u64,
    /// TCP segments received.
    pub segments_received: u64,
    /// TCP segments retransmitted, without those that had arrived before (DSACK, RFC 2883): a receiver that waits for a CPU
    /// acknowledges late, and nothing was lost. A network that duplicates packets hides as many losses.
    pub retransmitted: u64,
    /// TCP segments received before an earlier one, which was lost or overtaken.
    pub out_of_order: u64,
    /// Received packets that the kernel dropped because its backlog was full (`softnet_stat`), over all interfaces.
    pub softnet_dropped: u64,
    /// Its interfaces, without the loopback.
    pub links: Vec<Link>,
}

/// A side of the network.
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
    /// Received packets that were dropped because a buffer was full, including those missed by the interface (`rx_missed_errors`).
    pub receive_dropped: u64,
    /// Packets that its queueing discipline dropped, warm-up included; `None` if tc(8) does not report it.
    pub queue_dropped: Option<u64>,
    /// Its speed; `None` for virtual interfaces without one.
    pub bits_per_s: Option<u64>,
}

/// The clients' rate at a null server: a server of bakeoff that responds at once, over the same network, with as many bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Successful requests per second.
    pub requests_per_s: f64,
    /// Bytes of their bodies per second.
    pub body_bytes_per_s: f64,
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// Share of the window for which the busiest client thread ran or waited for a CPU.
    pub client_busy: f64,
    /// Longest wait of a client thread for a CPU, as a share of the window.
    pub client_waited: f64,
    /// Idle share of the CPU time of the clients' CPUs.
    pub cpu_idle: f64,
    /// Whether the null server ran on the clients' CPUs.
    pub is_shared: bool,
    /// CPU time per request of clients and null server, in nanoseconds; `None` if the null server runs elsewhere.
    pub cpu_ns_per_request: Option<f64>,
}

/// How the measurement of a ceiling ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CeilingOutcome {
    /// It was measured.
    Measured(Ceiling),
    /// The measurement failed.
    Failed {
        /// What happened.
        detail: String,
    },
}

/// Unit of clients, of which one is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientUnit {
    /// Client hosts.
    Host,
    /// Client threads, on a single host.
    Thread,
}

/// A trial with one client fewer, at the same load. The verdict ignores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneFewer {
    /// What was left out.
    pub unit: ClientUnit,
    /// Remaining number of units.
    pub left: u32,
    /// Name of the workload's primary metric.
    pub metric: String,
    /// Unit of the metric.
    pub metric_unit: String,
    /// Figure of the metric.
    pub value: f64,
}

/// How a trial with one client fewer ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OneFewerOutcome {
    /// It was measured.
    Measured(OneFewer),
    /// The trial failed.
    Failed {
        /// What happened.
        detail: String,
    },
}
