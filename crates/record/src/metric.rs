//! A metric: a named figure of a trial with a unit and a direction.

use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better: pages per second.
    Higher,
    /// Less is better: milliseconds, CPU, errors.
    Lower,
}

/// Whether a metric decides or only guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The one figure of a workload that its verdict is about.
    Primary,
    /// Watched beside it.
    Guard,
}

/// What a figure means; the same for every trial of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// Short and lower case: `throughput`, `latency-p99`.
    pub name: String,
    /// `requests/s`, `us`, `instructions/request`, ...
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Whether it decides.
    pub role: Role,
}

/// A metric that is how long something waited, in words: `p99 latency`, `p99 wake-up latency`; `None`: another metric.
pub fn latency(name: &str) -> Option<String> {
    let kinds = [("latency-", "latency"), ("wakeup-", "wake-up latency")];
    kinds.iter().find_map(|(prefix, kind)| {
        let quantile = name.strip_prefix(prefix)?;
        Some(format!("{quantile} {kind}"))
    })
}

/// The quantile of the clients' latencies that a metric is: 0.99 of `latency-p99`; `None`: another metric.
pub fn latency_quantile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix("latency-p")?;
    format!("0.{digits}").parse().ok()
}

/// One figure of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is.
    pub spec: MetricSpec,
    /// Its value in `spec.unit`; finite.
    pub value: f64,
}

impl Figure {
    /// A figure, from the parts of its spec.
    pub fn new(name: &str, unit: &str, direction: Direction, role: Role, value: f64) -> Self {
        let spec = MetricSpec {
            name: name.into(),
            unit: unit.into(),
            direction,
            role,
        };
        Self { spec, value }
    }
}
