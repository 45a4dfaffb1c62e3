//! Progress and result of a load, as reported by whatever runs the clients: another agent, a host, or this process.

use std::collections::BTreeMap;

use crate::curve::Curve;
use crate::load::{LoadResult, Second, Tick};
use crate::load_path::LoadPath;
use crate::metric::Figure;
use base::latency::Packed;
use serde::{Deserialize, Serialize};

/// A message about a load that has begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drive {
    /// Progress, sent every second.
    Tick(Tick),
    /// Part of the clients' timeline, in order; after the load.
    Seconds(Vec<Second>),
    /// The load succeeded; the timeline was sent before.
    Driven(Box<Driven>),
    /// The load failed.
    Failed {
        /// Whether the server's responses were wrong; otherwise the clients failed.
        is_wrong: bool,
        /// What happened.
        detail: String,
    },
}

/// Result of a load: that of the clients, and figures of the workload's driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Driven {
    /// Result of simulated clients; absent for workloads without them.
    pub load: Option<LoadResult>,
    /// Figures of the workload's driver.
    pub figures: Vec<Figure>,
    /// Figures against the load, for ramps.
    pub curves: Vec<Curve>,
    /// The clients' pace, CPUs and network; absent unless there was a single load.
    pub path: Option<LoadPath>,
    /// Facts of a server that the agent did not start, and of the clients' side.
    pub facts: BTreeMap<String, String>,
}

impl Driven {
    /// Messages with the result, the timeline in parts.
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

    /// Adds the timeline that was sent before it.
    #[must_use]
    pub fn with_timeline(mut self, seconds: Vec<Second>) -> Self {
        if let Some(load) = &mut self.load {
            load.timeline = seconds;
        }
        self
    }
}

/// Divides a tick into messages below `LIMIT`, without its latencies, which agents do not need.
pub fn tick_in_parts(tick: Tick) -> impl Iterator<Item = Tick> {
    let empty = tick.ended.is_empty().then(Vec::new);
    let parts = empty
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
        let mut latency = base::latency::Latency::coarse();
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
    fn a_result_with_a_long_timeline_is_received_as_sent() {
        let driven = Driven {
            load: Some(LoadResult {
                timeline: seconds(2000),
                ..LoadResult::default()
            }),
            facts: [("clients:place".to_string(), "host".to_string())].into(),
            ..Driven::default()
        };
        let mut bytes = Vec::new();
        for message in driven.clone().messages() {
            crate::protocol::send(&mut bytes, &message).unwrap();
        }
        let (mut input, mut seconds) = (bytes.as_slice(), Vec::new());
        let received = loop {
            match crate::protocol::receive(&mut input).unwrap() {
                Drive::Seconds(part) => seconds.extend(part),
                Drive::Driven(driven) => break *driven,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(received.with_timeline(seconds), driven);
    }

    #[test]
    fn a_tick_with_many_seconds_is_sent_in_parts() {
        let empty = tick_in_parts(Tick::default());
        assert_eq!(empty.collect::<Vec<_>>(), [Tick::default()]);
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
