//! What an agent and the hosts that its clients are on say to each other, each over the input and output of its own `ssh`.
//!
//! ```text
//! agent: Hello Prepare ------- Ping* ----- Start ------- Still* --------- Ping* --- (hangs up)
//! host:  Hello ------- Ready ------- Pong* ----- Tick* -------- Seconds* Driven --- Pong*
//!                                                               Failed, at any time
//! ```
//! All hosts begin at one instant, which each is told by its own clock. A host whose agent hangs up, or is silent, ends.

use serde::{Deserialize, Serialize};

use crate::protocol::drive::Drive;
use crate::protocol::{Greeting, Job};

/// How a host's agent is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCommand {
    /// The host's name, for facts and messages.
    pub host: String,
    /// A program of this host and its arguments; the agent is at its input and output.
    pub words: Vec<String>,
}

/// From the agent of a trial to a host of its clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToHost {
    /// First word.
    Hello(Greeting),
    /// What to get ready for.
    Prepare(Box<HostJob>),
    /// To be answered with the time.
    Ping,
    /// Begin.
    Start {
        /// At this instant of the host's own clock (`load::clock`).
        at_ns: u64,
    },
    /// The agent is still there.
    Still,
}

/// A host's share of the clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostJob {
    /// The whole job.
    pub job: Job,
    /// Which part of its load, counted from 0.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

/// From a host of the clients to the agent of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromHost {
    /// First word.
    Hello(Greeting),
    /// It can begin.
    Ready,
    /// The answer to a `Ping`.
    Pong {
        /// The host's own clock.
        at_ns: u64,
    },
    /// How the drive goes, and what its part yields.
    Drive(Drive),
}
