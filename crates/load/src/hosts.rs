//! Several hosts at one load, as whoever leads them sees it: how far their clocks are from his, and their seconds as one.

use std::collections::BTreeMap;

use record::latency::Packed;
use record::load::{Second, Tick};
use record::thinned::Point as _;

/// Questions by which two clocks are compared; the quickest answer counts.
pub const PINGS: usize = 32;

/// How far a host's clock is from ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// Its clock less this one's.
    pub ns: i128,
    /// By how much that may be wrong: half the shortest round trip.
    pub error_ns: u64,
}

impl Offset {
    /// Before anything was asked.
    pub const UNKNOWN: Self = Self {
        ns: 0,
        error_ns: u64::MAX,
    };

    /// Takes in one round trip: sent and come back by this clock, answered by the host's.
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

/// The last tick of each host; a second is told once all have told it.
#[derive(Debug)]
pub struct Ticks {
    last: Vec<Option<Tick>>,
    told: u32,
    /// Seconds that were not told yet, by their times.
    ended: BTreeMap<u64, Second>,
}

impl Ticks {
    /// So many hosts that have told nothing yet.
    pub fn new(hosts: usize) -> Self {
        Self {
            last: vec![None; hosts],
            told: 0,
            ended: BTreeMap::new(),
        }
    }

    /// A host's tick; the second of all that it completes.
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
        if second <= self.told {
            return None;
        }
        self.told = second;
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
    fn a_second_is_told_once_all_have_told_it() {
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
    fn the_quickest_answer_says_where_a_clock_is() {
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
