//! What an agent and the hosts that its clients are on say to each other, each over the input and output of its own `ssh`.
//!
//! ```text
//! agent: Hello Prepare ------- Ping* ----- Start ------- Still* --------- Ping* --- (hangs up)
//! host:  Hello ------- Ready ------- Pong* ----- Tick* -------- Seconds* Driven --- Pong*
//!                                                               Failed, at any time
//! ```
//! All hosts begin at one instant, which each is told by its own clock. A host whose agent hangs up, or is silent, ends.

use std::collections::BTreeMap;

use record::load::{LoadResult, Second};
use record::load_path::{ClientCpu, LoadPace, NetworkEnd};
use record::metric::Figure;
use serde::{Deserialize, Serialize};

use crate::{Greeting, Job};

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
    /// A second of load has passed.
    Tick {
        /// Seconds since the load began, warm-up included.
        second: u32,
        /// Right answers so far.
        ok: u64,
        /// Faults so far.
        faults: u64,
        /// Whether some of this second is in the window.
        is_counting: bool,
        /// Seconds of the window that have ended since the last one, and parts of earlier ones that came late.
        ended: Vec<Second>,
    },
    /// The timeline of what the clients saw, in its order; after the load.
    Seconds(Vec<Second>),
    /// The drive has ended well; all of the timeline has been sent before.
    Driven(Box<HostDriven>),
    /// It has not.
    Failed {
        /// Whether what was served was wrong, rather than the clients.
        is_wrong: bool,
        /// What happened.
        detail: String,
    },
}

/// What a host's share of a drive yields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostDriven {
    /// What its clients saw.
    pub load: LoadResult,
    /// How they sent their requests.
    pub pace: LoadPace,
    /// Figures that only the driver could take.
    pub figures: Vec<Figure>,
    /// What the driver found out about the server; the same on all hosts.
    pub found: BTreeMap<String, String>,
    /// Facts of this host over the window.
    pub facts: BTreeMap<String, String>,
    /// Its CPUs that clients may run on, over the window.
    pub cpus: Vec<ClientCpu>,
    /// Its end of the network, over the window.
    pub ends: Vec<NetworkEnd>,
}

/// A host's result as the messages that tell it.
pub fn told(mut driven: HostDriven) -> impl Iterator<Item = FromHost> {
    let seconds = crate::seconds_in_parts(std::mem::take(&mut driven.load.timeline));
    let driven = FromHost::Driven(Box::new(driven));
    seconds.map(FromHost::Seconds).chain([driven])
}
