//! The A/A runs of a machine: an arm against itself. A run carries those that there were when it began, so that it can be judged
//! anywhere.

use serde::{Deserialize, Serialize};

/// Version of `a-a.json`.
pub const VERSION: u32 = 1;

/// The A/A runs of one machine before a run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Version of the format.
    pub version: u32,
    /// One for each run and workload, oldest first.
    pub runs: Vec<PastRun>,
}

/// One workload of an A/A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastRun {
    /// When it began, and the workload's id.
    pub id: String,
    /// The primary metric's logarithms of arm over baseline, block by block.
    pub contrasts: Vec<f64>,
    /// How its verdict ended.
    pub ended: Ended,
}

/// How an A/A run ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Whether the arm was told apart from itself.
    pub told_apart: bool,
    /// The chance of that on a sound machine, at the most.
    pub error_rate: f64,
    /// The seed of its random order: a repeat of the same order says nothing new.
    pub seed: i64,
}
