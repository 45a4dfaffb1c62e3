//! What set an arm's figures on a workload: its server, the clients, the network, or nothing that was at its end.

use serde::{Deserialize, Serialize};

use crate::load_path::{ClientUnit, LoadPace, SentLate, Side};

/// What set an arm's figures, all trials together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmLimit {
    /// What it was; `None` where that is not known.
    pub limit: Option<Limit>,
    /// What shows it, the gravest first.
    pub signs: Vec<LimitSign>,
    /// How clients sent their requests.
    pub pace: LoadPace,
    /// What the clients get from a null server.
    pub ceiling: CeilingUse,
    /// What one client fewer does to the figure; `None` where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_fewer: Option<OneFewerUse>,
    /// Share of the window that the busiest client thread ran or waited for a CPU; `None` where threads watch the clock, and
    /// so are always busy.
    pub client_busy: Option<f64>,
    /// Share of TCP segments that were sent again, of the end that did so most; `None` where nothing was sent.
    pub retransmitted: Option<f64>,
    /// Share of the fastest link's speed that was used; `None` where no interface has a speed of its own.
    pub line_share: Option<f64>,
}

/// What can set figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The clients: a server that is faster would measure the same.
    Clients,
    /// The network.
    Network,
    /// Nothing: the server could have done more than it was asked for.
    NotSaturated,
    /// The server.
    Server,
}

impl Limit {
    /// Its term: `client-limited`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clients => "client-limited",
            Self::Network => "network-bound",
            Self::NotSaturated => "server not saturated",
            Self::Server => "server-limited",
        }
    }
}

/// What shows a limit. Shares are of 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LimitSign {
    /// The clients' own CPU time: the busiest thread ran, or waited for a CPU, for so much of the window.
    BusyThread {
        /// Share of the window.
        share: f64,
    },
    /// A client thread was ready to run and had no CPU for so much of the window, however little it ran.
    WaitingThread {
        /// Share of the window.
        share: f64,
    },
    /// One of the clients' CPUs was busy receiving.
    BusyInterrupts {
        /// The CPU.
        cpu: u32,
        /// Share of the window in interrupts, soft ones included.
        share: f64,
    },
    /// Requests were sent late.
    SentLate(SentLate),
    /// The clients lost requests of their own for want of ports, descriptors, memory or time.
    LostByClients {
        /// Share of all requests.
        share: f64,
    },
    /// One client fewer, at the same load, moved the primary figure by more than the margin and by more than trials scatter.
    OneClientFewer {
        /// What was left out.
        unit: ClientUnit,
        /// How many were left.
        left: u32,
        /// The figure over the mean of the trials, less 1.
        change: f64,
    },
    /// So much was served of what the clients get from a null server.
    NearCeiling {
        /// Share of the ceiling.
        share: f64,
        /// Whether the clients were what ended that; otherwise it was the network, or the null server.
        is_of_clients: bool,
    },
    /// A link was near its speed.
    NearLineRate {
        /// The interface.
        link: String,
        /// Whose.
        side: Side,
        /// Share of its speed, in the direction in which more went.
        share: f64,
    },
    /// TCP sent segments again.
    Retransmits {
        /// Whose.
        side: Side,
        /// Share of all segments sent.
        share: f64,
    },
    /// TCP segments came before earlier ones: those were lost, or overtaken.
    OutOfOrder {
        /// Whose.
        side: Side,
        /// Share of all segments received.
        share: f64,
    },
    /// Packets were dropped.
    Dropped {
        /// Where.
        place: DropPlace,
        /// Whose.
        side: Side,
        /// The interface; `None` where it is not known which.
        link: Option<String>,
        /// Share of the packets that passed there.
        share: f64,
    },
    /// The server kept up with the rate that was asked for.
    RateKept,
    /// CPU time that the server could have had was idle.
    IdleCpu {
        /// Share of it.
        share: f64,
    },
}

/// Where packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropPlace {
    /// By the queueing discipline of an interface, on their way out.
    Queue,
    /// By an interface, on their way in.
    Interface,
    /// By the kernel, before it looked at them (`softnet_stat`).
    Softnet,
}

/// What is known of what clients get from a null server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CeilingUse {
    /// Nobody measured it.
    NotKnown,
    /// Measuring it failed.
    Failed {
        /// What happened, in words.
        detail: String,
    },
    /// The null server was slower than the arm's, or took more CPU time: it shows nothing.
    TooLow {
        /// What the clients got from it.
        requests_per_s: f64,
        /// What the arm served, as a share of that.
        share: f64,
    },
    /// It was measured.
    Known {
        /// What the clients got from the null server.
        requests_per_s: f64,
        /// What the arm served, as a share of that.
        share: f64,
        /// Whether the share is one of CPU times: what a request takes with the null server, of what it takes with the arm's. Where
        /// clients and servers share CPUs with whatever else a host does, rates of different moments cannot be compared.
        is_of_cpu_time: bool,
    },
}

/// What one client fewer does to an arm's primary figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OneFewerUse {
    /// It was tried, and gave no figure.
    Failed {
        /// What happened, in words.
        detail: String,
    },
    /// It was measured.
    Known {
        /// What was left out.
        unit: ClientUnit,
        /// How many were left.
        left: u32,
        /// The figure over the mean of the arm's trials, less 1.
        change: f64,
        /// How far one more trial lies from that mean in 99 of 100 cases, by the scatter of the arm's trials; `None` of a single one.
        scatter: Option<f64>,
    },
}

/// An arm whose limit is said first, because its figures are not the server's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedArm {
    /// The arm.
    pub arm: String,
    /// What set its figures.
    pub limit: Limit,
}
