//! How far a verdict moves with the emulated CPU: the same plan on other models, beside the run itself.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::verdict::Verdict;

/// Version of `models.json`.
pub const VERSION: u32 = 1;

/// All primary metrics of a run on other models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Models {
    /// Version of the format.
    pub version: u32,
    /// One for each model, workload and arm.
    pub rows: Vec<ModelRow>,
}

/// One arm's primary metric on one other model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRow {
    /// What was varied: `EPYC-Milan`, `mitigations=off`.
    pub model: String,
    /// Name of the run directory below `models/`.
    pub dir: String,
    /// The workload's id.
    pub workload: String,
    /// The metric's name.
    pub metric: String,
    /// The arm that is judged against the baseline.
    pub arm: String,
    /// What the run itself says.
    pub own: Finding,
    /// What the other model says.
    pub other: Finding,
    /// Share of the run's own difference that is another on this model: 0 where it is the same, 1 where it is gone or
    /// doubled. `None` where either has no ratio, or the run's own is none to speak of.
    pub moved: Option<f64>,
    /// What follows.
    pub standing: Standing,
}

/// A verdict with its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What is said.
    pub verdict: Verdict,
    /// Arm over baseline.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Level of that interval, a fraction; `None` without one.
    pub confidence: Option<f64>,
    /// Blocks behind it.
    pub blocks: u32,
}

/// Whether a verdict stands on another model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Standing {
    /// The same verdict, and most of the difference.
    Holds,
    /// Another verdict, or another difference.
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
