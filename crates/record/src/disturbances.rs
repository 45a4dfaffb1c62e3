//! Planned disturbances of a system under load: whether they took effect, and the service during and after them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metric::{Direction, Figure, Role};

mod around;
mod stream;

pub use around::SecondsAround;
pub use stream::{DisturbanceStream, read_begun};

/// A planned disturbance, done or impossible.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DisturbanceRecord {
    /// Its name in the plan.
    pub name: String,
    /// When it began, in milliseconds since the window opened.
    pub begin_ms: u64,
    /// When it was undone, in milliseconds since the window opened.
    pub end_ms: u64,
    /// Its effect.
    pub effect: Effect,
    /// Service before, during and after it; absent without simulated clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceAround>,
}

/// Effect of a disturbance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It had an effect, as counts show; `DisturbanceKind` names the count that decides.
    Took {
        /// Counts by name.
        counts: BTreeMap<String, u64>,
    },
    /// It was done, without any visible effect.
    Unfelt {
        /// Counts by name.
        counts: BTreeMap<String, u64>,
    },
    /// It could not be done.
    Impossible {
        /// The system's error.
        why: String,
    },
}

impl Effect {
    /// Whether it had an effect.
    pub fn took(&self) -> bool {
        matches!(self, Self::Took { .. })
    }
}

/// Service before, during and after a disturbance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceAround {
    /// Successful requests per second, median of the seconds before it.
    pub before_per_s: f64,
    /// Successful requests per second during it.
    pub during_per_s: f64,
    /// Failed requests during it.
    pub failed: u64,
    /// Failed requests after it, until recovery.
    pub failed_after: u64,
    /// Failed requests of both that are counted for an earlier disturbance already: the two overlap, or the service had not recovered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counted_before: u64,
    /// Time from its end to recovery, in milliseconds; absent if the service did not recover within `watched_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_ms: Option<u64>,
    /// How long the service was watched after it, in milliseconds: until the next disturbance began or the window ended.
    pub watched_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A disturbance that has begun, and its end. The agent reports both at once, so that they survive an aborted trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunDisturbance {
    /// Its name in the plan.
    pub name: String,
    /// When it began, in milliseconds since the window opened.
    pub begin_ms: u64,
    /// When it was undone, in milliseconds since the window opened; absent while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<u64>,
}

/// Time of a planned disturbance, until recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSpan<'r> {
    /// Its name in the plan.
    pub name: &'r str,
    /// Its beginning, in milliseconds since the window opened.
    pub begin_ms: u64,
    /// Its end; what happens later is not attributed to it.
    pub until_ms: u64,
}

impl BegunDisturbance {
    /// Its span in an aborted trial, in which the recovery is not known.
    pub fn span(&self) -> PlannedSpan<'_> {
        PlannedSpan {
            name: &self.name,
            begin_ms: self.begin_ms,
            until_ms: self.end_ms.unwrap_or(u64::MAX),
        }
    }
}

impl DisturbanceRecord {
    /// Its span; `None` if it could not be done.
    pub fn span(&self) -> Option<PlannedSpan<'_>> {
        let recovery_ms = self.service.as_ref().map_or(0, ServiceAround::at_least_ms);
        (!matches!(self.effect, Effect::Impossible { .. })).then(|| PlannedSpan {
            name: &self.name,
            begin_ms: self.begin_ms,
            until_ms: self.end_ms.saturating_add(recovery_ms),
        })
    }
}

/// Milliseconds of an interval that lie in at least one of the spans.
pub fn overlap_ms(spans: &[PlannedSpan<'_>], at_ms: u64, length_ms: u64) -> u64 {
    let end_ms = at_ms.saturating_add(length_ms);
    let inside = spans.iter().map(|span| {
        let begin = span.begin_ms.clamp(at_ms, end_ms);
        (begin, span.until_ms.clamp(begin, end_ms))
    });
    let mut inside: Vec<(u64, u64)> = inside.collect();
    inside.sort_unstable();
    let (mut sum_ms, mut covered_ms) = (0, at_ms);
    for (begin, end) in inside {
        sum_ms += end.saturating_sub(begin.max(covered_ms));
        covered_ms = covered_ms.max(end);
    }
    sum_ms
}

/// Failed requests of a trial that are attributed to planned disturbances, each counted once.
pub fn planned_failures(records: &[DisturbanceRecord]) -> u64 {
    let services = records.iter().filter_map(|record| record.service.as_ref());
    services.fold(0, |sum, service| {
        let failed = service.all_failed().saturating_sub(service.counted_before);
        sum.saturating_add(failed)
    })
}

impl ServiceAround {
    /// Failed requests attributed to the disturbance.
    pub fn all_failed(&self) -> u64 {
        self.failed.saturating_add(self.failed_after)
    }

    /// Time from its end to recovery, or for which the service was watched, in milliseconds.
    pub fn at_least_ms(&self) -> u64 {
        self.recovery_ms.unwrap_or(self.watched_ms)
    }
}

/// Three figures of each disturbance, over all its times: throughput during it, failed requests, recovery time. They are compared
/// between arms like any other figure.
pub fn figures(records: &[DisturbanceRecord]) -> Vec<Figure> {
    let mut by_name: BTreeMap<&str, Vec<&ServiceAround>> = BTreeMap::new();
    for record in records {
        if let Some(service) = &record.service
            && !matches!(record.effect, Effect::Impossible { .. })
        {
            by_name.entry(&record.name).or_default().push(service);
        }
    }
    let secondary = |name: &str, what: &str, unit: &str, direction, value| {
        let name = format!("{name}-{what}");
        Figure::new(&name, unit, direction, Role::Secondary, value)
    };
    let mut figures = Vec::new();
    for (name, services) in by_name {
        let count = services.len() as f64;
        let failed: u64 = services.iter().map(|service| service.all_failed()).sum();
        let during_per_s: f64 = services.iter().map(|service| service.during_per_s).sum();
        let recoveries = services.iter().map(|service| service.at_least_ms());
        let recovery_s: f64 = recoveries.map(|ms| ms as f64 / 1e3).sum();
        let (higher, lower) = (Direction::Higher, Direction::Lower);
        figures.extend([
            secondary(name, THROUGHPUT, "requests/s", higher, during_per_s / count),
            secondary(name, FAILED, "requests", lower, failed as f64),
            secondary(name, RECOVERY, "s", lower, recovery_s / count),
        ]);
    }
    figures
}

/// Whether `figure` is one of the three figures of the disturbance `name`.
pub fn is_figure_of(name: &str, figure: &str) -> bool {
    let end = figure
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'));
    end.is_some_and(|end| [THROUGHPUT, FAILED, RECOVERY].contains(&end))
}

/// Suffixes of the three figures' names.
const THROUGHPUT: &str = "throughput";
const FAILED: &str = "failed";
const RECOVERY: &str = "recovery";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_cover_all_times_of_a_disturbance() {
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
            .map(|figure| format!("{} {}", figure.spec.name, figure.value))
            .collect();
        assert_eq!(
            shown,
            ["loss-throughput 50", "loss-failed 7", "loss-recovery 5"]
        );
    }
}
