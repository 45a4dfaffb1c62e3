//! The A/A runs of a machine, which compare an arm with itself. Each run carries a copy of those that existed when it began, so it
//! can be judged on any host.

use serde::{Deserialize, Serialize};

/// Version of `a-a.json`.
pub const VERSION: u32 = 1;

/// The A/A runs of one machine before a run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Version of the format.
    pub version: u32,
    /// One entry per run and workload, oldest first.
    pub runs: Vec<PastRun>,
}

/// One workload of an A/A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastRun {
    /// When it began, and the workload's id.
    pub id: String,
    /// Logarithm of arm over baseline of the primary metric, one per block.
    pub contrasts: Vec<f64>,
    /// How its verdict ended.
    pub ended: Ended,
}

/// How an A/A run ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Whether the run found a significant difference: a false positive, as both arms are the same.
    pub told_apart: bool,
    /// Highest probability of a false positive on a sound machine.
    pub error_rate: f64,
    /// The seed of its random order; a second run with the same order adds no evidence.
    pub seed: i64,
}
