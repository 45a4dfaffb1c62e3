//! How far a verdict depends on the emulated CPU: results of the same plan on other CPU models.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::verdict::Verdict;

/// Version of `models.json`.
pub const VERSION: u32 = 1;

/// All primary metrics of a run on other CPU models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Models {
    /// Version of the format.
    pub version: u32,
    /// One row per model, workload and arm.
    pub rows: Vec<ModelRow>,
}

/// One arm's primary metric on another model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRow {
    /// The variation: `EPYC-Milan`, `mitigations=off`.
    pub model: String,
    /// Name of the run directory below `models/`.
    pub dir: String,
    /// The workload's id.
    pub workload: String,
    /// The metric's name.
    pub metric: String,
    /// The arm that is compared with the baseline.
    pub arm: String,
    /// Result of the run.
    pub own: ModelVerdict,
    /// Result on the other model.
    pub other: ModelVerdict,
    /// Change of the difference on this model, as a share of the run's: 0 if it is the same, 1 if it is gone or doubled. `None` if
    /// either has no ratio, or the run's difference is negligible.
    pub moved: Option<f64>,
    /// Whether the verdict holds.
    pub standing: Standing,
}

/// A verdict with its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// Arm over baseline.
    pub ratio: Option<f64>,
    /// Lower end of its confidence interval.
    pub low: Option<f64>,
    /// Upper end of its confidence interval.
    pub high: Option<f64>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// Number of blocks.
    pub blocks: u32,
}

/// Whether a verdict holds on another model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Standing {
    /// The same verdict, and a similar difference.
    Holds,
    /// Another verdict, or a different difference.
    ModelDependent,
    /// One of the two is undecided.
    Open,
}

impl Standing {
    /// `holds`, `model-dependent` or `open`.
    pub fn word(self) -> &'static str {
        self.into()
    }
}
