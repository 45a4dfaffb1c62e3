//! How far a run is at a look, as data. `report` puts it into words.

use serde::{Deserialize, Serialize};

use super::Verdict;

/// What a look showed of one primary metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Look {
    /// The metric of one arm.
    Metric(MetricLook),
    /// As a version of bakeoff told it that recorded a sentence.
    Told {
        /// Its sentence.
        text: String,
    },
}

/// How far one primary metric of one arm is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricLook {
    /// The workload's id.
    pub workload: String,
    /// The metric.
    pub metric: String,
    /// The arm that is compared with the baseline.
    pub arm: String,
    /// The verdict so far.
    pub verdict: Verdict,
    /// Blocks in which both arms were measured.
    pub blocks: u32,
    /// Arm over baseline; `None` without a ratio.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// How far it is to a verdict.
    pub remaining: Remaining,
}

/// How far it is to a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Remaining {
    /// It is there.
    Decided,
    /// Nothing is tested yet.
    FirstTest {
        /// The block after which it is.
        block: u32,
    },
    /// So many blocks would settle it at the noise so far.
    Blocks {
        /// Blocks more.
        more: u32,
        /// The margin that they would settle, a fraction.
        margin: f64,
        /// Blocks that the run may have in all.
        most: u32,
    },
    /// No number of blocks is known that would settle it.
    Unknown,
}
