//! What the two agents of a trial say to each other where clients are not on the servers' system.
//!
//! ```text
//! servers: Ready ---------- Noted* ----------------------- Noted ---------- Noted -----------------
//! clients:         Ping*           Begins (Step | Tick)* Opens ... Closes        Seconds* Driven
//!                                                                                Failed, at any time
//! ```
//! The window is the clients'. The servers' agent reads its meter when it is told that the window opens, and that it
//! closes, and says so: the time until then is the most by which the two windows can differ.

use std::collections::BTreeMap;

use record::curve::Curve;
use record::load::{LoadResult, Second};
use record::load_path::{ClientCpu, LoadPace, NetworkEnd, SentLate};
use record::metric::Figure;
use serde::{Deserialize, Serialize};

/// Name of the virtio-serial port by which a guest reaches the other agent.
pub const PORT: &str = "bakeoff.clients";

/// From the servers' agent to the clients'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToClients {
    /// The servers answer and their system is idle: begin.
    Ready,
    /// What needs an answer has been heard, and what it asks for is done.
    Noted,
}

/// From the clients' agent to the servers'.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromClients {
    /// To be noted at once.
    Ping,
    /// The load begins.
    Begins,
    /// A step of a ramp begins.
    Step,
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
    /// The window opens; to be noted.
    Opens,
    /// The window closes; to be noted.
    Closes,
    /// The timeline of what the clients saw, in its order; after the load.
    Seconds(Vec<Second>),
    /// The drive has ended well; all of the timeline has been sent before.
    Driven(Box<Driven>),
    /// It has not.
    Failed {
        /// Whether what was served was wrong, rather than the clients.
        is_wrong: bool,
        /// What happened.
        detail: String,
    },
}

/// What a drive yields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Driven {
    /// What simulated clients saw.
    pub load: Option<LoadResult>,
    /// Figures that only the driver could take.
    pub figures: Vec<Figure>,
    /// Figures against the load.
    pub curves: Vec<Curve>,
    /// Facts of the clients' side.
    pub facts: BTreeMap<String, String>,
    /// How requests were sent and what was seen of the clients' side of the network, where that is to be judged.
    pub path: Option<ClientsPath>,
}

/// The clients' side of the path of a load, over the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientsPath {
    /// How requests were sent.
    pub pace: LoadPace,
    /// Requests that were sent late by so much that it shows in their latency.
    pub sent_late: Option<SentLate>,
    /// The CPUs that clients may run on.
    pub cpus: Vec<ClientCpu>,
    /// The clients' ends of the network.
    pub ends: Vec<NetworkEnd>,
}

/// A drive as the messages that tell it.
pub fn told(mut driven: Driven) -> impl Iterator<Item = FromClients> {
    let load = driven.load.as_mut();
    let timeline = load.map(|load| std::mem::take(&mut load.timeline));
    let seconds = crate::seconds_in_parts(timeline.unwrap_or_default());
    let driven = FromClients::Driven(Box::new(driven));
    seconds.map(FromClients::Seconds).chain([driven])
}

/// A drive from its last message and the seconds that were sent before it.
pub fn whole(mut driven: Driven, seconds: Vec<Second>) -> Driven {
    if let Some(load) = &mut driven.load {
        load.timeline = seconds;
    }
    driven
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_survives_the_line_however_long_its_timeline_is() {
        let mut latency = record::latency::Latency::coarse();
        (0..10_000).for_each(|step| latency.record(step * step));
        let second = |index: u64| Second {
            at_ms: index * 1000,
            latency: latency.pack(),
            ..Second::default()
        };
        let driven = Driven {
            load: Some(LoadResult {
                timeline: (0..2000).map(second).collect(),
                ..LoadResult::default()
            }),
            facts: [("clients:place".to_string(), "host".to_string())].into(),
            ..Driven::default()
        };
        let mut line = Vec::new();
        for message in told(driven.clone()) {
            crate::send(&mut line, &message).unwrap();
        }
        let (mut line, mut seconds) = (line.as_slice(), Vec::new());
        let end = loop {
            match crate::receive(&mut line).unwrap() {
                FromClients::Seconds(part) => seconds.extend(part),
                FromClients::Driven(end) => break *end,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(whole(end, seconds), driven);
    }
}
