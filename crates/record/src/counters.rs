//! Counters of a system that may grow: kernel memory by purpose, tables, descriptors, services. Read about once a minute.
//!
//! A counter's name is `group:name`, and the group determines what it counts:
//! ```text
//! slab:filp  cache:dentry                  bytes in objects of a slab cache; `cache` if the kernel can reclaim them
//! memory:page-tables                       bytes of /proc/meminfo
//! sockets:tcp-inuse  tcp:close-wait        sockets of the servers' namespace
//! kernel:open-files                        files, inodes, dentries, tracked connections, processes, threads
//! fragmentation:order-4                    free memory that is in smaller pieces, in thousandths
//! service-rss:apache2                      bytes; service-files, service-threads, service-processes: numbers
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::thinned::Point;

/// Most counters of a reading.
pub const MOST: usize = 400;

/// Longest name of a counter, in bytes.
pub const NAME_BYTES: usize = 64;

/// Shortest window with counters, in milliseconds. Shorter ones cannot show growth.
pub const SHORTEST_MS: u64 = 240_000;

/// Memory not available, in bytes.
pub const MEMORY_USED: &str = "memory:used";

/// Swap in use, in bytes.
pub const SWAP_USED: &str = "memory:swap";

/// Memory usable by the kernel: the limit of counters in bytes without a specific limit.
pub const MEMORY_TOTAL: &str = "memory:total";

/// Unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// A number of objects.
    Count,
    /// Thousandths.
    Permille,
}

/// Unit of a counter, from its name.
pub fn unit(name: &str) -> Unit {
    match name.split(':').next().unwrap_or_default() {
        "slab" | "cache" | "memory" | "service-rss" => Unit::Bytes,
        "fragmentation" => Unit::Permille,
        _ => Unit::Count,
    }
}

/// Whether the kernel reclaims it when memory is short, so that growth is not a leak.
pub fn is_cache(name: &str) -> bool {
    name.starts_with("cache:")
        || matches!(
            name,
            "kernel:dentries" | "kernel:inodes" | "memory:slab-reclaimable"
        )
}

/// All counters at an instant. In a long trial, older readings are joined (`thinned`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Time of the (first) reading in milliseconds since the window opened; negative in warm-up.
    pub at_ms: i64,
    /// Values by name; of joined readings, the mean of those that have the counter.
    pub values: BTreeMap<String, u64>,
    /// Highest possible value of counters for which it is known; sent once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
    /// Extremes of the joined readings; absent for a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedCounters>,
}

/// Extremes of joined readings, which their mean does not show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedCounters {
    /// Number of readings.
    pub readings: u64,
    /// Lowest values, where they differ from the mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub least: BTreeMap<String, u64>,
    /// Highest values, where they differ from the mean.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub most: BTreeMap<String, u64>,
}

impl Counters {
    /// Number of readings in it.
    pub fn readings(&self) -> u64 {
        self.joined.as_ref().map_or(1, |joined| joined.readings)
    }

    /// The highest value of a counter; `None` if it was not read.
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

/// One counter over a group of readings.
struct Total {
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
        let mut totals: BTreeMap<&str, Total> = BTreeMap::new();
        for counters in group {
            let readings = counters.readings();
            for (name, value) in &counters.values {
                let least = counters.least(name).unwrap_or(*value);
                let most = counters.most(name).unwrap_or(*value);
                let total = totals.entry(name).or_insert(Total {
                    sum: 0,
                    readings: 0,
                    least,
                    most,
                });
                total.sum += u128::from(*value) * u128::from(readings);
                total.readings = total.readings.saturating_add(readings);
                total.least = total.least.min(least);
                total.most = total.most.max(most);
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
        for (name, total) in totals {
            let readings = u128::from(total.readings);
            let mean = ((total.sum + readings / 2) / readings.max(1)) as u64;
            if total.least != mean {
                joined.least.insert(name.into(), total.least);
            }
            if total.most != mean {
                joined.most.insert(name.into(), total.most);
            }
            values.insert(name.into(), mean);
        }
        let limits = group.iter().flat_map(|counters| counters.limits.clone());
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
    fn joined_readings_have_mean_and_extremes_whatever_the_steps() {
        let all = [
            reading(0, &[("slab:filp", 100), ("kernel:threads", 7)]),
            reading(60_000, &[("slab:filp", 400), ("kernel:threads", 7)]),
            reading(120_000, &[("slab:filp", 1000), ("kernel:threads", 7)]),
        ];
        let joined = Counters::join(&all);
        let in_steps = Counters::join(&[Counters::join(&all[..2]), all[2].clone()]);
        assert_eq!(joined, in_steps);
        assert_eq!((joined.at_ms, joined.readings()), (0, 3));
        assert_eq!(joined.values["slab:filp"], 500);
        assert_eq!(
            (joined.least("slab:filp"), joined.most("slab:filp")),
            (Some(100), Some(1000))
        );
        // A constant counter has no extremes.
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
    fn a_counter_missing_at_first_is_the_mean_of_the_readings_that_have_it() {
        let joined = Counters::join(&[reading(0, &[]), reading(1, &[("slab:new", 8)])]);
        assert_eq!(joined.values["slab:new"], 8);
    }

    #[test]
    fn the_group_determines_the_unit() {
        assert_eq!(unit("slab:filp"), Unit::Bytes);
        assert_eq!(unit("service-files:apache2"), Unit::Count);
        assert_eq!(unit("fragmentation:order-4"), Unit::Permille);
        assert!(is_cache("cache:dentry") && !is_cache("slab:filp"));
    }
}
