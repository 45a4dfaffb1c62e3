//! What was done to a system on purpose while it was loaded, whether that took effect, and how service went on meanwhile and after.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::{Direction, Figure, Role};

mod around;
mod stream;

pub use around::SecondsAround;
pub use stream::{DisturbanceStream, read_begun};

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

/// A disturbance that has begun, and when it ended: told as it happens, so that a trial that is cut off leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunDisturbance {
    /// Its name in the plan.
    pub name: String,
    /// When it began, in milliseconds since the window opened.
    pub begin_ms: u64,
    /// When it was undone; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<u64>,
}

/// When something was done to a system on purpose, until service was as before again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSpan<'r> {
    /// Its name in the plan.
    pub name: &'r str,
    /// Its beginning, in milliseconds since the window opened.
    pub begin_ms: u64,
    /// From then on nothing is laid to it.
    pub until_ms: u64,
}

impl BegunDisturbance {
    /// What is laid to it in a trial of which no more is known: all that came while it went on.
    pub fn span(&self) -> PlannedSpan<'_> {
        PlannedSpan {
            name: &self.name,
            begin_ms: self.begin_ms,
            until_ms: self.end_ms.unwrap_or(u64::MAX),
        }
    }
}

impl DisturbanceRecord {
    /// What is laid to it; nothing of one that could not be done.
    pub fn span(&self) -> Option<PlannedSpan<'_>> {
        let recovery_ms = self.service.as_ref().map_or(0, ServiceAround::at_least_ms);
        (!matches!(self.effect, Effect::Impossible { .. })).then(|| PlannedSpan {
            name: &self.name,
            begin_ms: self.begin_ms,
            until_ms: self.end_ms.saturating_add(recovery_ms),
        })
    }
}

/// How much of some time lies in any of these spans, in milliseconds.
pub fn overlap_ms(spans: &[PlannedSpan<'_>], at_ms: u64, length_ms: u64) -> u64 {
    let end_ms = at_ms.saturating_add(length_ms);
    let inside = spans.iter().map(|span| {
        let begin = span.begin_ms.clamp(at_ms, end_ms);
        (begin, span.until_ms.clamp(begin, end_ms))
    });
    let mut inside: Vec<(u64, u64)> = inside.collect();
    inside.sort_unstable();
    let (mut sum_ms, mut until_ms) = (0, at_ms);
    for (begin, end) in inside {
        sum_ms += end.saturating_sub(begin.max(until_ms));
        until_ms = until_ms.max(end);
    }
    sum_ms
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

/// Whether a figure is one of the three of a disturbance.
pub fn is_figure_of(name: &str, figure: &str) -> bool {
    let end = figure
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'));
    end.is_some_and(|end| [THROUGHPUT, FAILED, RECOVERY].contains(&end))
}

/// Ends of the three figures' names.
const THROUGHPUT: &str = "throughput";
const FAILED: &str = "failed";
const RECOVERY: &str = "recovery";

#[cfg(test)]
mod tests {
    use super::*;

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
