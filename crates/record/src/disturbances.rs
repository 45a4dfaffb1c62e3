//! What was done to a system on purpose while it was loaded, whether that took effect, and how service went on meanwhile and after.

use std::collections::BTreeMap;

use plan::PlannedDisturbance;
use serde::{Deserialize, Serialize};

use crate::load::Second;
use crate::metric::{Direction, Figure, Role};

/// A disturbance of a plan that came about, or could not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DisturbanceRecord {
    /// Its name in the plan.
    pub name: String,
    /// When it began, in milliseconds since the window opened.
    pub begin_ms: u64,
    /// When it was undone.
    pub end_ms: u64,
    /// What came of it.
    pub effect: Effect,
    /// How service went on; absent where no clients were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceAround>,
}

/// What came of a disturbance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It was felt: what was counted, by name, the count that tells first by `DisturbanceKind`.
    Took {
        /// Counts by name.
        counts: BTreeMap<String, u64>,
    },
    /// It was done, and nothing of it was seen.
    Unfelt {
        /// Counts by name.
        counts: BTreeMap<String, u64>,
    },
    /// It could not be done.
    Impossible {
        /// Why not, as the system said.
        why: String,
    },
}

impl Effect {
    /// Whether it was felt.
    pub fn took(&self) -> bool {
        matches!(self, Self::Took { .. })
    }
}

/// Service before, during and after a disturbance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceAround {
    /// Successful requests per second, median of the seconds before it.
    pub before_per_s: f64,
    /// Successful requests per second while it lasted.
    pub during_per_s: f64,
    /// Failed requests while it lasted.
    pub failed: u64,
    /// Failed requests after it, until service was as before.
    pub failed_after: u64,
    /// Of both, those that an earlier disturbance has among its own already: they overlap, or the earlier one was not over.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counted_before: u64,
    /// From its end until service was as before, in milliseconds; absent where it was not within `watched_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_ms: Option<u64>,
    /// How long service was watched after it, in milliseconds: until the next disturbance began or the window ended.
    pub watched_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Failed requests of a trial that are laid to what was done to it on purpose, each once.
pub fn planned_failures(records: &[DisturbanceRecord]) -> u64 {
    let services = records.iter().filter_map(|one| one.service.as_ref());
    services.fold(0, |sum, one| {
        sum.saturating_add(one.all_failed().saturating_sub(one.counted_before))
    })
}

impl ServiceAround {
    /// Failed requests that are laid to the disturbance.
    pub fn all_failed(&self) -> u64 {
        self.failed.saturating_add(self.failed_after)
    }

    /// From its end until service was as before, or for as long as it was watched.
    pub fn at_least_ms(&self) -> u64 {
        self.recovery_ms.unwrap_or(self.watched_ms)
    }
}

/// Seconds before a disturbance that tell what is usual.
const BEFORE_MS: u64 = 30_000;

/// Longest time for which service is watched after a disturbance.
const AFTER_MS: u64 = 600_000;

/// Service is as before from a second on that has so much of the usual throughput ...
pub const USUAL_SHARE: f64 = 0.9;

/// ... and no more failures than any second before, as have as many seconds after it.
pub const USUAL_SECONDS: usize = 3;

/// The seconds of a load that lie about its disturbances; all others are let go, so that memory does not grow with the window.
#[derive(Debug, Clone, Default)]
pub struct SecondsAround {
    spans: Vec<(u64, u64)>,
    /// Successful and failed requests, by the beginning of the second.
    seconds: BTreeMap<u64, (u64, u64)>,
    /// End of the last second.
    end_ms: u64,
}

impl SecondsAround {
    /// For a schedule.
    pub fn new(planned: &[PlannedDisturbance]) -> Self {
        let mut spans: Vec<_> = planned.iter().flat_map(spans_of).collect();
        spans.sort_unstable();
        Self {
            spans,
            ..Self::default()
        }
    }

    /// Takes a second, or a part of one that came late.
    pub fn take(&mut self, second: &Second) {
        // Sums of seconds say nothing of a single one.
        if second.joined.is_some() {
            return;
        }
        let at = second.at_ms;
        self.end_ms = self.end_ms.max(at.saturating_add(1000));
        let is_near = |(begin, end): &(u64, u64)| {
            begin.saturating_sub(BEFORE_MS) <= at && at < end.saturating_add(AFTER_MS)
        };
        if self.spans.iter().any(is_near) {
            let (ok, failed) = self.seconds.entry(at).or_default();
            *ok = ok.saturating_add(second.ok);
            *failed = failed.saturating_add(second.faults);
        }
    }

    /// Tells each record how service went on; records in the order of their beginning.
    pub fn tell(&self, records: &mut [DisturbanceRecord]) {
        // End of the last second whose failures are counted.
        let mut counted_ms = 0;
        for record in records {
            if matches!(record.effect, Effect::Impossible { .. }) {
                continue;
            }
            let Some(mut service) = self.around(record.begin_ms, record.end_ms) else {
                continue;
            };
            let until = nearest(record.end_ms + service.at_least_ms());
            let until = until.max(nearest(record.end_ms));
            let first = nearest(record.begin_ms);
            let again = self
                .seconds
                .range(first..counted_ms.clamp(first, until.max(first)));
            let again: u64 = again.map(|(_, (_, failed))| failed).sum();
            service.counted_before = again.min(service.all_failed());
            counted_ms = counted_ms.max(until);
            record.service = Some(service);
        }
    }

    /// How service went on about what was done from `begin_ms` to `end_ms`; nothing where no second was seen before or during it.
    pub fn around(&self, begin_ms: u64, end_ms: u64) -> Option<ServiceAround> {
        let is_disturbed = |at: u64| {
            let overlaps = |span: &&(u64, u64)| span.0 < at + 1000 && at < span.1;
            self.spans.iter().any(|span| overlaps(&span))
        };
        let from = begin_ms.saturating_sub(BEFORE_MS);
        let before: Vec<(u64, u64)> = self
            .seconds
            .range(from..begin_ms)
            .filter(|(at, _)| **at + 1000 <= begin_ms && !is_disturbed(**at))
            .map(|(_, counts)| *counts)
            .collect();
        let usual = median(before.iter().map(|(ok, _)| *ok).collect())?;
        let most_failed = before.iter().map(|(_, failed)| *failed).max().unwrap_or(0);
        let (first, last) = (nearest(begin_ms), nearest(end_ms));
        let last = last.max(first + 1000);
        let during: Vec<_> = self.seconds.range(first..last).collect();
        if during.is_empty() {
            return None;
        }
        let served: u64 = during.iter().map(|(_, (ok, _))| ok).sum();
        let next = self.spans.iter().map(|span| span.0);
        let next = next.filter(|begin| *begin >= end_ms).min();
        let until = next.unwrap_or(u64::MAX).min(self.end_ms);
        let until = until.min(end_ms.saturating_add(AFTER_MS));
        let after: Vec<(u64, (u64, u64))> = self
            .seconds
            .range(last..until.max(last))
            .map(|(at, counts)| (*at, *counts))
            .filter(|(at, _)| at + 1000 <= until)
            .collect();
        let is_usual = |(_, (ok, failed)): &(u64, (u64, u64))| {
            *ok as f64 >= USUAL_SHARE * usual && *failed <= most_failed
        };
        let mut runs = after.windows(USUAL_SECONDS);
        let normal = runs.position(|run| run.iter().all(is_usual));
        let unusual = &after[..normal.unwrap_or(after.len())];
        Some(ServiceAround {
            before_per_s: usual,
            during_per_s: served as f64 / during.len() as f64,
            failed: during.iter().map(|(_, (_, failed))| failed).sum(),
            counted_before: 0,
            failed_after: unusual.iter().map(|(_, (_, failed))| failed).sum(),
            recovery_ms: normal.map(|place| after[place].0.saturating_sub(end_ms)),
            watched_ms: until.saturating_sub(end_ms),
        })
    }
}

/// A second belongs to what lies in it for the most part: it seldom begins or ends with one to the millisecond.
fn nearest(ms: u64) -> u64 {
    (ms + 499) / 1000 * 1000
}

fn spans_of(planned: &PlannedDisturbance) -> impl Iterator<Item = (u64, u64)> {
    let span = |at: &u64| (*at, at.saturating_add(planned.length_ms));
    planned.at_ms.iter().map(span)
}

fn median(mut values: Vec<u64>) -> Option<f64> {
    values.sort_unstable();
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length.is_multiple_of(2) => Some(f64::midpoint(
            values[middle - 1] as f64,
            values[middle] as f64,
        )),
        _ => Some(values[middle] as f64),
    }
}

/// The three figures of each disturbance, over all times that it was done: throughput during it, failed requests, time until service
/// was as before. They are compared between arms as any other figure.
pub fn figures(records: &[DisturbanceRecord]) -> Vec<Figure> {
    let mut by_name: BTreeMap<&str, Vec<&ServiceAround>> = BTreeMap::new();
    for record in records {
        if let Some(service) = &record.service
            && !matches!(record.effect, Effect::Impossible { .. })
        {
            by_name.entry(&record.name).or_default().push(service);
        }
    }
    let guard = |name: &str, what: &str, unit: &str, direction, value| {
        let name = format!("{name}-{what}");
        Figure::new(&name, unit, direction, Role::Guard, value)
    };
    let figures = by_name.into_iter().flat_map(|(name, times)| {
        let mean = |of: &dyn Fn(&ServiceAround) -> f64| {
            times.iter().map(|one| of(one)).sum::<f64>() / times.len() as f64
        };
        let failed: u64 = times.iter().map(|one| one.all_failed()).sum();
        let during = mean(&|one| one.during_per_s);
        let recovery = mean(&|one| one.at_least_ms() as f64 / 1e3);
        [
            guard(name, THROUGHPUT, "requests/s", Direction::Higher, during),
            guard(name, FAILED, "requests", Direction::Lower, failed as f64),
            guard(name, RECOVERY, "s", Direction::Lower, recovery),
        ]
    });
    figures.collect()
}

/// Ends of the three figures' names.
const THROUGHPUT: &str = "throughput";
const FAILED: &str = "failed";
const RECOVERY: &str = "recovery";

#[cfg(test)]
mod tests {
    use plan::DisturbanceKind;

    use super::*;

    /// 100 a second, but what `of` says.
    fn around(spans: &[(u64, u64)], of: impl Fn(u64) -> (u64, u64)) -> SecondsAround {
        let planned = |(at, end): &(u64, u64)| PlannedDisturbance {
            name: "loss".into(),
            kind: DisturbanceKind::LinkDown,
            at_ms: vec![at * 1000],
            length_ms: (end - at) * 1000,
        };
        let planned: Vec<_> = spans.iter().map(planned).collect();
        let mut seconds = SecondsAround::new(&planned);
        for second in 0..60 {
            let (ok, faults) = of(second);
            seconds.take(&Second {
                at_ms: second * 1000,
                ok,
                faults,
                ..Second::default()
            });
        }
        seconds
    }

    fn is_about(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9, "{value}");
    }

    #[test]
    fn recovery_is_the_time_until_three_usual_seconds() {
        // Down from 10 to 15, then slow for four seconds, one of which looks usual.
        let seconds = around(&[(10, 15)], |second| match second {
            10..15 => (0, 7),
            15 | 17 | 18 => (50, 1),
            _ => (100, 0),
        });
        let service = seconds.around(10_000, 15_000).unwrap();
        assert_eq!(service.recovery_ms, Some(4000));
        assert_eq!((service.failed, service.failed_after), (35, 3));
        is_about(service.during_per_s, 0.0);
        is_about(service.before_per_s, 100.0);
        assert_eq!(service.watched_ms, 45_000);
        assert_eq!(service.at_least_ms(), 4000);
    }

    #[test]
    fn service_that_never_stopped_needs_no_time() {
        let seconds = around(&[(10, 15)], |_| (100, 0));
        let service = seconds.around(10_003, 15_004).unwrap();
        assert_eq!((service.recovery_ms, service.all_failed()), (Some(0), 0));
        is_about(service.during_per_s, 100.0);
    }

    #[test]
    fn what_never_recovers_is_known_for_as_long_as_it_was_watched() {
        let seconds = around(&[(10, 15), (20, 25)], |second| match second {
            0..10 => (100, 0),
            _ => (10, 0),
        });
        let first = seconds.around(10_000, 15_000).unwrap();
        assert_eq!((first.recovery_ms, first.watched_ms), (None, 5000));
        assert_eq!(first.at_least_ms(), 5000);
        // What came before the second one is what the first one left.
        let second = seconds.around(20_000, 25_000).unwrap();
        is_about(second.before_per_s, 100.0);
        assert_eq!(second.recovery_ms, None);
    }

    #[test]
    fn a_failure_is_laid_to_one_disturbance_only() {
        let record = |begin_ms, end_ms| DisturbanceRecord {
            name: "one".into(),
            begin_ms,
            end_ms,
            effect: Effect::Unfelt {
                counts: BTreeMap::new(),
            },
            service: None,
        };
        // One failure in each second; they overlap for three seconds. A second at 40 fails by itself.
        let seconds = around(&[(10, 15), (12, 20)], |second| match second {
            10..20 => (50, 1),
            40 => (50, 100),
            _ => (100, 0),
        });
        let mut records = [record(10_000, 15_000), record(12_000, 20_000)];
        seconds.tell(&mut records);
        let [first, second] = records.clone().map(|one| one.service.unwrap());
        assert_eq!((first.all_failed(), first.counted_before), (10, 0));
        assert_eq!((second.all_failed(), second.counted_before), (8, 8));
        assert_eq!(planned_failures(&records), 10);
    }

    #[test]
    fn only_seconds_near_a_disturbance_are_kept() {
        let planned = PlannedDisturbance {
            name: "loss".into(),
            kind: DisturbanceKind::LinkDown,
            at_ms: vec![7_200_000],
            length_ms: 20_000,
        };
        let mut seconds = SecondsAround::new(&[planned]);
        for second in 0..14 * 24 * 3600 {
            seconds.take(&Second {
                at_ms: second * 1000,
                ok: 100,
                ..Second::default()
            });
        }
        assert_eq!(seconds.seconds.len(), 30 + 20 + 600);
        let service = seconds.around(7_200_000, 7_220_000).unwrap();
        assert_eq!(service.recovery_ms, Some(0));
    }

    #[test]
    fn figures_are_over_all_times_of_a_name() {
        let record = |failed, recovery_ms| DisturbanceRecord {
            name: "loss".into(),
            begin_ms: 0,
            end_ms: 0,
            effect: Effect::Took {
                counts: BTreeMap::new(),
            },
            service: Some(ServiceAround {
                before_per_s: 100.0,
                during_per_s: 50.0,
                failed,
                failed_after: 1,
                counted_before: 0,
                recovery_ms,
                watched_ms: 9000,
            }),
        };
        let impossible = DisturbanceRecord {
            name: "none".into(),
            effect: Effect::Impossible { why: "no".into() },
            ..record(0, None)
        };
        let figures = figures(&[record(2, Some(1000)), record(3, None), impossible]);
        let shown: Vec<_> = figures
            .iter()
            .map(|one| format!("{} {}", one.spec.name, one.value))
            .collect();
        assert_eq!(
            shown,
            ["loss-throughput 50", "loss-failed 7", "loss-recovery 5"]
        );
    }
}
