//! How a drive goes and what it yields, in the words of all who have clients: another agent, a host, this process.

use std::collections::BTreeMap;

use crate::curve::Curve;
use crate::latency::Packed;
use crate::load::{LoadResult, Second, Tick};
use crate::load_path::LoadPath;
use crate::metric::Figure;
use serde::{Deserialize, Serialize};

/// A drive, from its beginning on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drive {
    /// A second of load has passed.
    Tick(Tick),
    /// The timeline of what the clients saw, in its order; after the load.
    Seconds(Vec<Second>),
    /// It has ended well; all of the timeline has been sent before.
    Driven(Box<Driven>),
    /// It has not.
    Failed {
        /// Whether what was served was wrong, rather than the clients.
        is_wrong: bool,
        /// What happened.
        detail: String,
    },
}

/// What a drive yields: what clients saw, and figures that only the driver could take.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Driven {
    /// What simulated clients saw; absent for workloads without them.
    pub load: Option<LoadResult>,
    /// Figures that the workload's own driver measured.
    pub figures: Vec<Figure>,
    /// Figures against the load, of workloads that climb.
    pub curves: Vec<Curve>,
    /// How the clients sent their requests, and what was seen of their CPUs and network; absent where no single load was sent.
    pub path: Option<LoadPath>,
    /// What the driver found out about a server that it did not start, and facts of the clients' side.
    pub facts: BTreeMap<String, String>,
}

impl Driven {
    /// As messages, the timeline in parts.
    pub fn messages(mut self) -> impl Iterator<Item = Drive> {
        let timeline = self
            .load
            .as_mut()
            .map(|load| std::mem::take(&mut load.timeline));
        let seconds = crate::protocol::seconds_in_parts(timeline.unwrap_or_default());
        seconds
            .map(Drive::Seconds)
            .chain([Drive::Driven(Box::new(self))])
    }

    /// With the seconds that were sent before it.
    #[must_use]
    pub fn with_timeline(mut self, seconds: Vec<Second>) -> Self {
        if let Some(load) = &mut self.load {
            load.timeline = seconds;
        }
        self
    }
}

/// A tick in messages that are not too long, without its latencies, which no agent asks for.
pub fn tick_in_parts(tick: Tick) -> impl Iterator<Item = Tick> {
    let none = tick.ended.is_empty().then(Vec::new);
    let parts = none
        .into_iter()
        .chain(crate::protocol::seconds_in_parts(tick.ended));
    parts.map(move |ended| Tick {
        latency: Packed::default(),
        ended,
        ..tick
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Vec<Second> {
        let mut latency = crate::latency::Latency::coarse();
        (0..10_000).for_each(|step| latency.record(step * step));
        let latency = latency.pack();
        let second = |index: u64| Second {
            at_ms: index * 1000,
            latency: latency.clone(),
            ..Second::default()
        };
        (0..count).map(second).collect()
    }

    #[test]
    fn a_drive_survives_the_line_however_long_its_timeline_is() {
        let driven = Driven {
            load: Some(LoadResult {
                timeline: seconds(2000),
                ..LoadResult::default()
            }),
            facts: [("clients:place".to_string(), "host".to_string())].into(),
            ..Driven::default()
        };
        let mut line = Vec::new();
        for message in driven.clone().messages() {
            crate::protocol::send(&mut line, &message).unwrap();
        }
        let (mut line, mut seconds) = (line.as_slice(), Vec::new());
        let end = loop {
            match crate::protocol::receive(&mut line).unwrap() {
                Drive::Seconds(part) => seconds.extend(part),
                Drive::Driven(end) => break *end,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(end.with_timeline(seconds), driven);
    }

    #[test]
    fn seconds_that_pile_up_are_sent_in_parts() {
        let nothing = tick_in_parts(Tick::default());
        assert_eq!(nothing.collect::<Vec<_>>(), [Tick::default()]);
        let hours = seconds(10_000);
        let mut sent = Vec::new();
        let tick = Tick {
            second: 1,
            ended: hours.clone(),
            ..Tick::default()
        };
        for part in tick_in_parts(tick) {
            crate::protocol::send(&mut std::io::sink(), &Drive::Tick(part.clone())).unwrap();
            sent.extend(part.ended);
        }
        assert_eq!(sent, hours);
    }
}
