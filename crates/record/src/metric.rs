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

/// Role of a metric in the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The metric that decides a workload's verdict.
    Primary,
    /// A metric watched beside the primary one.
    Secondary,
}

/// Meaning of a figure, the same for every trial of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// Short and lower case: `throughput`, `latency-p99`.
    pub name: String,
    /// `requests/s`, `us`, `instructions/request`, ...
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Its role in the verdict.
    pub role: Role,
}

/// Description of a latency metric: `p99 latency`, `p99 wake-up latency`; `None` for other metrics.
pub fn latency(name: &str) -> Option<String> {
    let kinds = [("latency-", "latency"), ("wakeup-", "wake-up latency")];
    kinds.iter().find_map(|(prefix, kind)| {
        let quantile = name.strip_prefix(prefix)?;
        Some(format!("{quantile} {kind}"))
    })
}

/// The quantile of a client latency metric: 0.99 for `latency-p99`; `None` for other metrics.
pub fn latency_quantile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix("latency-p")?;
    format!("0.{digits}").parse().ok()
}

/// One figure of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its metric.
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
