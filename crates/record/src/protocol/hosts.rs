//! Messages between an agent and the hosts of its clients, over stdin and stdout of one `ssh` per host.
//!
//! ```text
//! agent: Hello Prepare ------- Ping* ----- Start ------- Still* --------- Ping* --- (hangs up)
//! host:  Hello ------- Ready ------- Pong* ----- Tick* -------- Seconds* Driven --- Pong*
//!                                                               Failed, at any time
//! ```
//! All hosts begin at the same instant, which the agent converts to each host's clock. A host stops if the agent hangs up or sends nothing.

use serde::{Deserialize, Serialize};

use crate::protocol::drive::Drive;
use crate::protocol::{Greeting, Job};

/// How a host's agent is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCommand {
    /// The host's name, for facts and messages.
    pub host: String,
    /// A local program with its arguments; the host's agent is connected to its stdin and stdout.
    pub words: Vec<String>,
}

/// From the agent of a trial to a client host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToHost {
    /// The first message.
    Hello(Greeting),
    /// Prepare this job.
    Prepare(Box<HostJob>),
    /// Reply with the time.
    Ping,
    /// Begin.
    Start {
        /// Time of the host's clock (`load::clock`).
        at_ns: u64,
    },
    /// The agent is still connected.
    Still,
}

/// A host's share of the clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostJob {
    /// The whole job.
    pub job: Job,
    /// Index of the host's part of the load, counted from 0.
    pub index: u32,
    /// Number of parts.
    pub count: u32,
}

/// From a client host to the agent of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromHost {
    /// The first message.
    Hello(Greeting),
    /// It is ready to begin.
    Ready,
    /// Reply to a `Ping`.
    Pong {
        /// Time of the host's clock.
        at_ns: u64,
    },
    /// Progress and result of its part of the load.
    Drive(Drive),
}
