//! What the plan had done to the systems on purpose, by arm: whether it took effect, and how service went on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::verdict::Spread;

/// One disturbance of the plan under one arm, all measured trials together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedSummary {
    /// The workload's id.
    pub workload: String,
    /// Its name in the plan.
    pub name: String,
    /// Its kind: `loss`.
    pub kind: String,
    /// The arm.
    pub arm: String,
    /// How often it was tried.
    pub times: u32,
    /// How often it was felt.
    pub took: u32,
    /// How often it could not be done.
    pub impossible: u32,
    /// Why it could not be done, the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What was counted, all times together.
    pub counts: BTreeMap<String, u64>,
    /// Failed requests that are laid to it, all times together.
    pub failed: u64,
    /// Successful requests per second before it, over all times; `None` where none was seen.
    pub before_per_s: Option<Spread>,
    /// The same while it lasted.
    pub during_per_s: Option<Spread>,
    /// Seconds from its end until service was as before; for as long as it was watched where it was not.
    pub recovery_s: Option<Spread>,
    /// How often service was not as before while it was watched.
    pub not_recovered: u32,
}
