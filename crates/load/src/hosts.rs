//! Several hosts that share one load, as the coordinator sees them: clock offsets, and ticks merged
//! into one.

use std::collections::BTreeMap;

use base::latency::Packed;
use record::load::{Second, Tick};
use record::thinned::Point as _;

/// Round trips by which two clocks are compared; the quickest one counts.
pub const PINGS: usize = 32;

/// The offset of a host's clock from ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The host's clock minus ours.
    pub ns: i128,
    /// Maximum error of `ns`: half the shortest round trip.
    pub error_ns: u64,
}

impl Offset {
    /// Before the first round trip.
    pub const UNKNOWN: Self = Self {
        ns: 0,
        error_ns: u64::MAX,
    };

    /// Adds a round trip. `sent_ns` and `back_ns` are on our clock, `answered_ns` on the host's.
    pub fn add(&mut self, sent_ns: u64, answered_ns: u64, back_ns: u64) {
        let half_trip_ns = (back_ns - sent_ns).div_ceil(2);
        if half_trip_ns < self.error_ns {
            *self = Self {
                ns: i128::from(answered_ns) - i128::from(sent_ns + half_trip_ns),
                error_ns: half_trip_ns,
            };
        }
    }
}

/// Merges the ticks of all hosts. A second is reported once all hosts have reported it.
#[derive(Debug)]
pub struct Ticks {
    last: Vec<Option<Tick>>,
    reported: u32,
    /// Seconds not reported yet, by their times.
    ended: BTreeMap<u64, Second>,
}

impl Ticks {
    /// For this many hosts.
    pub fn new(hosts: usize) -> Self {
        Self {
            last: vec![None; hosts],
            reported: 0,
            ended: BTreeMap::new(),
        }
    }

    /// Adds a host's tick. Returns the merged tick if this completes a second.
    pub fn add(&mut self, host: usize, mut tick: Tick) -> Option<Tick> {
        for second in std::mem::take(&mut tick.ended) {
            match self.ended.get_mut(&second.at_ms) {
                Some(sum) => sum.add(&second),
                None => drop(self.ended.insert(second.at_ms, second)),
            }
        }
        self.last[host] = Some(tick);
        let all = self.last.iter().map(Option::as_ref);
        let all = all.collect::<Option<Vec<&Tick>>>()?;
        let second = all.iter().map(|tick| tick.second).min()?;
        if second <= self.reported {
            return None;
        }
        self.reported = second;
        let mut latency = Packed::default();
        for tick in &all {
            latency.merge(&tick.latency);
        }
        Some(Tick {
            second,
            ok: all.iter().map(|tick| tick.ok).sum(),
            faults: all.iter().map(|tick| tick.faults).sum(),
            latency,
            counting: all.iter().any(|tick| tick.counting),
            ended: std::mem::take(&mut self.ended).into_values().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_reported_once_all_hosts_have_reported_it() {
        let tick = |second, ok| Tick {
            second,
            ok,
            faults: 1,
            latency: Packed::default(),
            counting: second > 1,
            ended: vec![Second {
                at_ms: u64::from(second) * 1000,
                ok,
                ..Second::default()
            }],
        };
        let mut ticks = Ticks::new(2);
        assert_eq!(ticks.add(0, tick(1, 5)), None);
        let all = ticks.add(1, tick(1, 7)).unwrap();
        assert_eq!(
            (all.second, all.ok, all.faults, all.counting),
            (1, 12, 2, false)
        );
        assert_eq!(all.ended.len(), 1);
        assert_eq!((all.ended[0].at_ms, all.ended[0].ok), (1000, 12));
        assert_eq!(ticks.add(0, tick(2, 9)), None);
        assert_eq!(ticks.add(1, tick(2, 4)).unwrap().ended[0].ok, 13);
    }

    #[test]
    fn the_quickest_round_trip_gives_the_offset() {
        let mut offset = Offset::UNKNOWN;
        offset.add(100, 1000, 200);
        let first = Offset {
            ns: 850,
            error_ns: 50,
        };
        assert_eq!(offset, first);
        offset.add(300, 9000, 500);
        assert_eq!(offset, first, "a slower answer is no better");
        offset.add(600, 1500, 611);
        let quicker = Offset {
            ns: 894,
            error_ns: 6,
        };
        assert_eq!(offset, quicker);
    }
}
