//! Counters of a system that may grow: kernel memory by what it is for, tables, descriptors, services. Read about once a minute.
//!
//! A counter's name is its group and its own name, and the group says what it counts:
//! ```text
//! slab:filp  cache:dentry                  bytes in objects of a slab cache; `cache` where the kernel gives them back
//! memory:page-tables                       bytes of /proc/meminfo
//! sockets:tcp-inuse  tcp:close-wait        sockets of the servers' namespace
//! kernel:open-files                        files, inodes, dentries, tracked connections, processes, threads
//! fragmentation:order-4                    free memory that is in smaller pieces, in thousandths
//! service-rss:apache2                      bytes; service-files, service-threads, service-processes: how many
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::thinned::Point;

/// Most counters of a reading.
pub const MOST: usize = 400;

/// Longest name of a counter, in bytes.
pub const NAME_BYTES: usize = 64;

/// Of a window that is shorter, in milliseconds, no counters are read: nothing could be said of growth.
pub const SHORTEST_MS: u64 = 240_000;

/// Memory not available, in bytes.
pub const MEMORY_USED: &str = "memory:used";

/// Swap in use, in bytes.
pub const SWAP_USED: &str = "memory:swap";

/// The limit that counters in bytes have where they have none of their own: memory that the kernel can use.
pub const MEMORY_TOTAL: &str = "memory:total";

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things.
    Count,
    /// Thousandths.
    Permille,
}

/// What a counter counts, by its name.
pub fn unit(name: &str) -> Unit {
    match name.split(':').next().unwrap_or_default() {
        "slab" | "cache" | "memory" | "service-rss" => Unit::Bytes,
        "fragmentation" => Unit::Permille,
        _ => Unit::Count,
    }
}

/// Whether the kernel gives it back when memory is short, so that its growth is no leak.
pub fn is_cache(name: &str) -> bool {
    name.starts_with("cache:")
        || matches!(
            name,
            "kernel:dentries" | "kernel:inodes" | "memory:slab-reclaimable"
        )
}

/// All counters at an instant; of a long trial, where it is old, several readings as one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// When, in milliseconds since the window opened; negative in warm-up. Of several, of the first.
    pub at_ms: i64,
    /// By name; of several readings, the mean of those that have it.
    pub values: BTreeMap<String, u64>,
    /// What a counter cannot exceed, where that is known; said once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
    /// Of how many readings it is the mean; absent where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedCounters>,
}

/// What the mean of readings no longer shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedCounters {
    /// How many readings.
    pub readings: u64,
    /// The lowest value of those counters that had another one than their mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub least: BTreeMap<String, u64>,
    /// The highest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub most: BTreeMap<String, u64>,
}

impl Counters {
    /// Of how many readings it is made.
    pub fn readings(&self) -> u64 {
        self.joined.as_ref().map_or(1, |joined| joined.readings)
    }

    /// The highest value that a counter had; `None` where it was not read.
    pub fn most(&self, name: &str) -> Option<u64> {
        let most = self
            .joined
            .as_ref()
            .and_then(|joined| joined.most.get(name));
        most.or_else(|| self.values.get(name)).copied()
    }

    fn least(&self, name: &str) -> Option<u64> {
        let least = self
            .joined
            .as_ref()
            .and_then(|joined| joined.least.get(name));
        least.or_else(|| self.values.get(name)).copied()
    }
}

/// One counter of a group of readings.
struct Joining {
    sum: u128,
    readings: u64,
    least: u64,
    most: u64,
}

impl Point for Counters {
    const HAS_PARTS: bool = false;

    fn time_ms(&self) -> i64 {
        self.at_ms
    }

    fn join(group: &[Self]) -> Self {
        if let [alone] = group {
            return alone.clone();
        }
        let mut all: BTreeMap<&str, Joining> = BTreeMap::new();
        for one in group {
            for (name, value) in &one.values {
                let (least, most) = (one.least(name), one.most(name));
                let (least, most) = (least.unwrap_or(*value), most.unwrap_or(*value));
                let its = all.entry(name).or_insert(Joining {
                    sum: 0,
                    readings: 0,
                    least,
                    most,
                });
                its.sum += u128::from(*value) * u128::from(one.readings());
                its.readings = its.readings.saturating_add(one.readings());
                its.least = its.least.min(least);
                its.most = its.most.max(most);
            }
        }
        let mut joined = JoinedCounters {
            readings: group
                .iter()
                .map(Self::readings)
                .fold(0, u64::saturating_add),
            ..JoinedCounters::default()
        };
        let mut values = BTreeMap::new();
        for (name, its) in all {
            let half = u128::from(its.readings) / 2;
            let mean = ((its.sum + half) / u128::from(its.readings).max(1)) as u64;
            if its.least != mean {
                joined.least.insert(name.into(), its.least);
            }
            if its.most != mean {
                joined.most.insert(name.into(), its.most);
            }
            values.insert(name.into(), mean);
        }
        let limits = group.iter().flat_map(|one| one.limits.clone());
        Self {
            at_ms: group.first().map_or(0, |first| first.at_ms),
            values,
            limits: limits.collect(),
            joined: Some(joined),
        }
    }

    fn add(&mut self, part: &Self) {
        let at_ms = self.at_ms;
        *self = Self::join(&[self.clone(), part.clone()]);
        self.at_ms = at_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ms: i64, values: &[(&str, u64)]) -> Counters {
        let pairs = values
            .iter()
            .map(|(name, value)| ((*name).to_string(), *value));
        Counters {
            at_ms,
            values: pairs.collect(),
            ..Counters::default()
        }
    }

    #[test]
    fn readings_become_a_mean_and_extremes_and_it_does_not_matter_in_which_steps() {
        let all = [
            reading(0, &[("slab:filp", 100), ("kernel:threads", 7)]),
            reading(60_000, &[("slab:filp", 400), ("kernel:threads", 7)]),
            reading(120_000, &[("slab:filp", 1000), ("kernel:threads", 7)]),
        ];
        let joined = Counters::join(&all);
        let steps = Counters::join(&[Counters::join(&all[..2]), all[2].clone()]);
        assert_eq!(joined, steps);
        assert_eq!((joined.at_ms, joined.readings()), (0, 3));
        assert_eq!(joined.values["slab:filp"], 500);
        assert_eq!(
            (joined.least("slab:filp"), joined.most("slab:filp")),
            (Some(100), Some(1000))
        );
        // What does not vary takes no room.
        assert!(
            !joined
                .joined
                .as_ref()
                .unwrap()
                .most
                .contains_key("kernel:threads")
        );
        assert_eq!(joined.most("kernel:threads"), Some(7));
    }

    #[test]
    fn a_counter_that_came_later_is_the_mean_of_those_that_have_it() {
        let joined = Counters::join(&[reading(0, &[]), reading(1, &[("slab:new", 8)])]);
        assert_eq!(joined.values["slab:new"], 8);
    }

    #[test]
    fn a_group_says_what_is_counted() {
        assert_eq!(unit("slab:filp"), Unit::Bytes);
        assert_eq!(unit("service-files:apache2"), Unit::Count);
        assert_eq!(unit("fragmentation:order-4"), Unit::Permille);
        assert!(is_cache("cache:dentry") && !is_cache("slab:filp"));
    }
}
