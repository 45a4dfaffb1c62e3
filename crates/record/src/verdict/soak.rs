//! What is said of a soak: what failed, what grew, how service went on over time, and what one pair of long trials can say of speed.

use serde::{Deserialize, Serialize};

use crate::counters::Unit;
use crate::trial::VoidReason;

/// Level of all intervals and bounds of long trials.
pub const CONFIDENCE: f64 = 0.95;

/// All that is said of the long trials of one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    /// The workload's id.
    pub workload: String,
    /// By arm, as the plan has them.
    pub arms: Vec<SoakArm>,
    /// What was looked for.
    pub rule: GrowthRule,
    /// Counters that grow in any arm, those that grow in one arm alone first.
    pub growth: Vec<Growth>,
    /// Arms against the baseline by what happens within trials, where blocks are too few for a verdict on speed.
    pub speed: Vec<WithinRuns>,
}

/// One arm's long trials together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoakArm {
    /// The arm's name.
    pub arm: String,
    /// Trials that were long enough, those that were cut short among them.
    pub trials: u32,
    /// Those that were cut short, and are evidence up to there.
    pub cut_short: Vec<CutShort>,
    /// Time under load, in milliseconds.
    pub length_ms: u64,
    /// Requests that ended, rightly or not; those that failed for the clients' own reasons left out where that is known.
    pub requests: u64,
    /// Requests that failed, but for those that are laid to a disturbance of the plan.
    pub failures: u64,
    /// Requests that failed and are laid to a disturbance of the plan.
    #[serde(default)]
    pub planned_failures: u64,
    /// Of all requests, those that ended while the system was disturbed as planned.
    #[serde(default)]
    pub disturbed_requests: u64,
    /// The share of failures among the other requests is below this with 95 % confidence, if requests fail independently; `None` without
    /// requests.
    pub failure_bound: Option<f64>,
    /// Hours, begun ones too, of all trials.
    pub hours: u32,
    /// Hours in which a request failed.
    pub failure_hours: u32,
    /// The share of such hours is below this with 95 % confidence, if hours are independent of each other; requests need not be.
    pub failure_hours_bound: Option<f64>,
    /// The longest outage of any trial that no disturbance of the plan made.
    pub outage: Option<Outage>,
    /// The longest one that a disturbance of the plan made.
    #[serde(default)]
    pub planned_outage: Option<PlannedOutage>,
    /// Processes of services that ended by a signal, or by themselves, and nobody had asked for it.
    #[serde(default)]
    pub service_crashes: u64,
    /// Services that were started again, as their logs tell.
    #[serde(default)]
    pub service_restarts: u64,
    /// Where service changed.
    pub changes: Vec<Change>,
    /// Hour by hour, trials together.
    pub by_hour: Vec<SoakPart>,
    /// Day by day; empty of trials of a day or less.
    pub by_day: Vec<SoakPart>,
    /// Whether counters were read in any of its trials, often enough and until its end, so that growth can be told.
    pub has_counters: bool,
}

/// A trial that ended before its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutShort {
    /// Its number.
    pub trial: u32,
    /// Where what is known of it ends, in milliseconds since the window opened.
    pub at_ms: u64,
    /// Why.
    pub reason: VoidReason,
}

/// A time without a right answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// In which trial.
    pub trial: u32,
    /// When it began, in milliseconds since the window opened.
    pub at_ms: u64,
    /// How long it was, in milliseconds.
    pub length_ms: u64,
}

/// A time without a right answer that a disturbance of the plan made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedOutage {
    /// The disturbance's name.
    pub name: String,
    /// In which trial.
    pub trial: u32,
    /// When it began, in milliseconds since the window opened.
    pub at_ms: u64,
    /// How long it was, in milliseconds.
    pub length_ms: u64,
}

/// What of the service is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// Right answers per second.
    Throughput,
    /// Median latency, in milliseconds.
    P50,
    /// The latency that one in a hundred exceeds, in milliseconds.
    P99,
    /// The latency that one in a thousand exceeds, in milliseconds.
    P999,
    /// Share of requests that fail.
    Failures,
}

/// A lasting change of service within a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// In which trial.
    pub trial: u32,
    /// What changed.
    pub quality: Quality,
    /// About when, in milliseconds since the window opened.
    pub at_ms: u64,
    /// What it was typically before.
    pub before: f64,
    /// What it was typically after.
    pub after: f64,
}

/// Some of the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SoakPart {
    /// Its beginning, in milliseconds since the window opened.
    pub at_ms: u64,
    /// Its length, of all trials together, in milliseconds.
    pub length_ms: u64,
    /// Right answers.
    pub ok: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Median latency, in milliseconds.
    pub p50_ms: Option<f64>,
    /// The latency that one in a hundred exceeds.
    pub p99_ms: Option<f64>,
    /// The latency that one in a thousand exceeds.
    pub p999_ms: Option<f64>,
    /// Memory in use, mean, in bytes; `None` where it was not read.
    pub memory_used_bytes: Option<u64>,
    /// Swap in use, highest, in bytes; `None` where it was not read.
    pub swap_used_bytes: Option<u64>,
}

/// What counts as growth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GrowthRule {
    /// Chance that any counter of any arm is said to grow where none does, at the most.
    pub error_rate: f64,
    /// Growth that matters: this share of memory, or of the counter's own limit,
    pub least: f64,
    /// within so many milliseconds.
    pub after_ms: u64,
    /// Counters that were tested, each in each arm by itself.
    pub tested: u32,
    /// Of these, such as grew only at first.
    pub levelled_off: u32,
    /// Such as grow by less than matters.
    pub small: u32,
}

/// A counter that grows in some arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// Its name: `slab:filp`.
    pub counter: String,
    /// What it counts.
    pub unit: Unit,
    /// Whether the kernel gives it back when memory is short: no leak, and no gate trips on it.
    pub is_cache: bool,
    /// By arm; those that have no such counter are left out.
    pub arms: Vec<ArmGrowth>,
    /// Against the baseline, by arm.
    pub against: Vec<GrowthAgainst>,
}

/// A counter in one arm, all trials together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmGrowth {
    /// The arm's name.
    pub arm: String,
    /// Trials that tell.
    pub trials: u32,
    /// Growth in an hour, in the counter's unit.
    pub per_h: f64,
    /// Lower end of its 95 % confidence interval; `None` where every slope fits.
    #[serde(default)]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default)]
    pub high: Option<f64>,
    /// The chance of such a trend where there is none, corrected for all counters and arms (Holm).
    pub p_value: f64,
    /// What it would come to after the rule's time, as a share of its limit; `None` where it has none.
    pub share_after: Option<f64>,
    /// Whether it is growth by the rule.
    pub grows: bool,
}

/// A counter in an arm and in the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GrowthAgainst {
    /// The arm.
    pub arm: String,
    /// What is said.
    pub place: GrowthPlace,
}

/// Where a counter grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthPlace {
    /// In the arm, and not in the baseline; their difference is significant.
    ArmOnly,
    /// In the baseline, and not in the arm; their difference is significant.
    BaselineOnly,
    /// In both, faster in the arm.
    FasterInArm,
    /// In both, and not faster in the arm.
    Both,
    /// In the arm; whether it grows in the baseline as well cannot be told.
    ArmAtLeast,
    /// In the baseline; whether it grows in the arm as well cannot be told.
    BaselineAtLeast,
}

impl GrowthPlace {
    /// Whether it speaks against the arm.
    pub fn is_new(self) -> bool {
        match self {
            Self::ArmOnly | Self::FasterInArm | Self::ArmAtLeast => true,
            Self::BaselineOnly | Self::Both | Self::BaselineAtLeast => false,
        }
    }
}

/// An arm's throughput against the baseline's, by how it varies within trials: what boots differ by is not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithinRuns {
    /// The arm.
    pub arm: String,
    /// Arm over baseline.
    pub ratio: f64,
    /// Lower end of a 95 % confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}
