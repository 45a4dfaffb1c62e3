//! What no arm can move: how fast the host was beside each arm, and what its A/A runs say of it.

use serde::{Deserialize, Serialize};

use super::Verdict;

/// How fast the host was around an arm's trials, against those of the baseline: a fixed piece of work, done before and after each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostSpeed {
    /// The workload's id.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// Blocks in which both were tried.
    pub blocks: u32,
    /// Blocks without which nothing can be told.
    pub needed: u32,
    /// Time of the work beside the arm over that beside the baseline; above 1 where the host was slower for the arm.
    pub ratio: f64,
    /// Lower end of its interval; `None` with too few blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether that is more than chance, all workloads and arms taken together.
    pub is_significant: bool,
}

/// An arm whose primary metrics moved one way in all workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OneSided {
    /// The arm.
    pub arm: String,
    /// Better or worse.
    pub verdict: Verdict,
    /// How many workloads.
    pub workloads: u32,
    /// The smallest and the largest ratio of better to baseline, as if more were better everywhere.
    pub range: (f64, f64),
    /// How often chance moves all taken together as far.
    pub p_value: f64,
}

/// What is known of the machine from its A/A runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum History {
    /// The run does not say.
    #[default]
    NotKnown,
    /// There was none.
    None,
    /// There were some.
    Known {
        /// How many, each workload of a run by itself.
        runs: u32,
        /// Their blocks.
        blocks: u32,
        /// How many of them told an arm apart from itself.
        told_apart: u32,
        /// Evidence that they do so more often than their error rates say: a fair game's stake, 1 at the beginning.
        e_value: f64,
        /// Evidence that their blocks favour one place: likewise, at its highest.
        e_value_of_blocks: f64,
        /// Whether either has become more than a sound machine's ever does.
        has_failed: bool,
    },
}
