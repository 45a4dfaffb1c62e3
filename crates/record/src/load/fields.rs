//! All fields of a load result, listed once, to add up results of several clients and to check a result that was read.

use std::collections::BTreeMap;

use super::{Fault, LoadResult, Second};
use crate::check::{Checked, NAMES, THREADS, count, counts, is_name, most, short_text};
use crate::incidents::Incidents;
use crate::thinned::{MOST_POINTS, Point as _};
use crate::trend::Trend;
use crate::validate::seconds;
use base::latency::Latency;

/// A field's type decides how it is added up and checked.
trait Field {
    fn add(&mut self, other: &Self);

    /// Checks a value that a guest may have written, and removes control characters from texts.
    fn check(&mut self, name: &str) -> Checked;
}

macro_rules! fields {
    (longest: $longest:ident; summed: $($field:ident)*) => {
        impl LoadResult {
            /// Adds the result of other clients of the same load: counts are added and histograms merged. Percentiles are never averaged.
            pub fn add(&mut self, other: &Self) {
                // All fields by name, so a missing one is a compile error.
                let Self { $longest, $($field),* } = other;
                self.$longest = self.$longest.max(*$longest);
                $(self.$field.add($field);)*
            }

            /// Checks all fields, including the timeline.
            pub(crate) fn check(&mut self) -> Checked {
                let Self { $longest, $($field),* } = self;
                $longest.check(stringify!($longest))?;
                if *$longest == 0 {
                    return Err("window without a length: 0 ns".into());
                }
                $($field.check(stringify!($field))?;)*
                Ok(())
            }
        }
    };
}

fields! {
    longest: window_ns;
    summed:
    planned ok ok_in_window backlog_open backlog_close unsent faults
    connections_asked connections_opened connections_held body_bytes ok_by_address
    latency service lateness client_delay speed_error_ppm line_share_ppm
    repeated withdrawn sessions sessions_begun incidents trend timeline
    client_cpu_ns client_wait_ns client_cpus host_cpu_ns stolen_ns engine engine_note
}

impl Field for u64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }

    fn check(&mut self, name: &str) -> Checked {
        count(name, *self)
    }
}

impl Field for BTreeMap<Fault, u64> {
    fn add(&mut self, other: &Self) {
        add_counts(self, other);
    }

    fn check(&mut self, _: &str) -> Checked {
        self.iter()
            .try_for_each(|(fault, number)| count(fault.name(), *number))
    }
}

impl Field for BTreeMap<String, u64> {
    fn add(&mut self, other: &Self) {
        add_counts(self, other);
    }

    fn check(&mut self, name: &str) -> Checked {
        most("addresses", self.len(), NAMES)?;
        self.iter().try_for_each(|(address, number)| {
            is_name("address", address)?;
            count(name, *number)
        })
    }
}

fn add_counts<K: Clone + Ord>(sums: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *sums.entry(key.clone()).or_default() += count;
    }
}

impl Field for Latency {
    fn add(&mut self, other: &Self) {
        self.merge(other);
    }

    /// Histograms were checked when they were read.
    fn check(&mut self, _: &str) -> Checked {
        Ok(())
    }
}

impl Field for Incidents {
    fn add(&mut self, other: &Self) {
        Self::add(self, other);
    }

    fn check(&mut self, _: &str) -> Checked {
        counts(&[
            ("stalls", self.stalls),
            ("stalled_ns", self.stalled_ns),
            ("longest_stall_ns", self.longest_stall_ns),
            ("stalled_requests", self.stalled_requests),
            ("stalled_backlog", self.stalled_backlog),
            ("left_open", self.left_open),
            ("refused_streams", self.refused_streams),
        ])
    }
}

impl Field for Trend {
    fn add(&mut self, other: &Self) {
        self.merge(other);
    }

    fn check(&mut self, name: &str) -> Checked {
        count(name, self.count)
    }
}

/// The timeline.
impl Field for Vec<Second> {
    /// Adds seconds to those of the same time. Where one host has already joined seconds and another has not, the latter are added to
    /// the joined ones.
    fn add(&mut self, other: &Self) {
        for second in other {
            let after = self.partition_point(|known| known.at_ms <= second.at_ms);
            let before = after.checked_sub(1).map(|at| &mut self[at]);
            let covers = |known: &&mut Second| second.at_ms < known.at_ms + known.length_ms();
            match before.filter(covers) {
                Some(known) => known.add(second),
                None => self.insert(after, second.clone()),
            }
        }
    }

    fn check(&mut self, _: &str) -> Checked {
        most("points of the timeline", self.len(), MOST_POINTS)?;
        seconds(self)
    }
}

/// Times, one per client thread.
impl Field for Vec<u64> {
    fn add(&mut self, other: &Self) {
        self.extend(other);
    }

    fn check(&mut self, name: &str) -> Checked {
        most("client threads", self.len(), THREADS)?;
        self.iter().try_for_each(|ns| count(name, *ns))
    }
}

/// Distinct texts, separated by commas.
impl Field for String {
    fn add(&mut self, other: &Self) {
        if other.is_empty() || self.split(", ").any(|known| known == other) {
            return;
        }
        if !self.is_empty() {
            self.push_str(", ");
        }
        self.push_str(other);
    }

    fn check(&mut self, name: &str) -> Checked {
        short_text(name, self)
    }
}
