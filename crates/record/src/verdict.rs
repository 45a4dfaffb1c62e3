//! What `judge` says: one verdict per metric and arm, and the tables a report prints.
//!
//! `report` computes no statistic, so everything it shows is in here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::curve::{Curve, Point, Shape};
use crate::load::Fault;
use crate::metric::{Direction, MetricSpec, Role};
use crate::trial::VoidReason;
use crate::verdict::defects::Defects;
use crate::verdict::finding::Finding;
use crate::verdict::host::{History, HostSpeed, OneSided};
use crate::verdict::limit::{ArmLimit, LimitedArm};
use crate::verdict::planned::PlannedSummary;
use crate::verdict::reason::Reason;
use crate::verdict::robustness::{ByLoad, ByPrice, Robustness};
use crate::verdict::weighed::{Class, Pin, Seen, Weighed};

pub mod apart;
pub mod call_tree;
pub mod confirm;
pub mod defects;
pub mod disclosure;
pub mod fairness;
pub mod finding;
pub mod host;
pub mod interim;
pub mod limit;
pub mod mechanism;
pub mod nodes;
pub mod planned;
pub mod reason;
pub mod robustness;
pub mod soak;
pub mod weighed;
pub mod why;

/// Version of the judgement, which `verdict.json` has below `details`.
pub const VERSION: u32 = 1;

/// What can be said of an arm against the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Verdict {
    /// The arm is better, whatever the margin.
    Better,
    /// The arm is worse.
    Worse,
    /// The difference lies within the margin.
    Equivalent,
    /// The data cannot tell.
    Undecided,
}

impl Verdict {
    /// The verdict as one word.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// One arm against the baseline on one metric of one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The workload's id.
    pub workload: String,
    /// The metric.
    pub spec: MetricSpec,
    /// The arm that is judged against the baseline.
    pub arm: String,
    /// What is said.
    pub verdict: Verdict,
    /// Arm over baseline, typical over blocks; 1 means no difference. `None` without a whole block.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's confidence interval, which is valid at every interim analysis.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Level of that interval, or of the one of `difference`; a fraction. An equivalent metric has another than the others.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// Arm minus baseline, where some figures are zero and so there is no ratio.
    #[serde(default)]
    pub difference: Option<Shift>,
    /// Lowest and highest ratio of a single block.
    #[serde(default)]
    pub range: Option<(f64, f64)>,
    /// Blocks in which both arms were measured.
    pub blocks: u32,
    /// Blocks after which the verdict was reached.
    #[serde(default)]
    pub decided_at: Option<u32>,
    /// Noise of a block: scale of the paired log-ratios around their centre.
    #[serde(default)]
    pub noise: Option<f64>,
    /// What being second in a block does to a trial, as a share; above zero where the second is better.
    #[serde(default)]
    pub order_effect: Option<f64>,
    /// Share of the plan's error rate that has been spent; above 1 where the run was given more blocks than the plan's.
    #[serde(default)]
    pub spent: f64,
    /// Blocks more that would settle an undecided one at this noise. `None` if it is decided, if no number of blocks
    /// would settle it, and before the first interim analysis.
    #[serde(default)]
    pub more: Option<u32>,
    /// Outliers of both arms; `None` where they cannot be told.
    #[serde(default)]
    pub outliers: Option<Outliers>,
    /// The estimate after each block, or after some of many; the primary metric only.
    #[serde(default)]
    pub estimate_history: Vec<Estimate>,
    /// Why it is so; for `undecided`, what would settle it.
    pub reason: Reason,
    /// The pairs behind it, in block order.
    pub pairs: Vec<Pair>,
}

/// The estimate after some number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Blocks so far.
    pub blocks: u32,
    /// Arm over baseline.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Level of that interval, a fraction.
    pub confidence: Option<f64>,
}

/// A difference in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Typical over blocks.
    pub typical: f64,
    /// Lower end of its interval; `None` while every difference fits.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
}

impl Comparison {
    /// Whether the blocks exclude anything at all. If not, they are too few to show any difference, however large.
    pub fn has_interval(&self) -> bool {
        self.low.is_some() || self.difference.is_some_and(|shift| shift.low.is_some())
    }

    /// Whether the smallest loss of any block is beyond the margin, a share.
    pub fn is_loss_in_every_block(&self, margin: f64) -> bool {
        self.range
            .is_some_and(|(low, high)| match self.spec.direction {
                Direction::Higher => high < 1.0 - margin,
                Direction::Lower => low > 1.0 + margin,
            })
    }
}

/// What the top of a report says of one arm on one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// The workload's id.
    pub workload: String,
    /// The arm; the baseline only where it failed.
    pub arm: String,
    /// What is said.
    pub conclusion: Conclusion,
    /// Arms of the comparison whose figures were set by something else than their server, the baseline among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitedArm>,
    /// The primary metric at other prices of string instructions; `None` where the clock counts no instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_price: Option<ByPrice>,
}

/// What all metrics of one arm on one workload come to. `against` names the secondary metrics that are significantly
/// worse by more than the margin (better, under a worse primary one), the largest change first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "badge", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Conclusion {
    /// The primary metric is better.
    Better,
    /// The primary metric is worse.
    Worse,
    /// The primary metric is equivalent.
    Equivalent,
    /// The primary metric is undecided.
    Undecided {
        /// Secondary metrics that are worse.
        against: Vec<String>,
    },
    /// The primary metric is decided, and others speak against it.
    TradeOff {
        /// What the primary metric says.
        primary: Verdict,
        /// Secondary metrics that say otherwise.
        against: Vec<String>,
        /// Curves that say otherwise at some load.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        curves: Vec<String>,
    },
    /// The primary metric is decided at the plan's price of string instructions, and says something else at another one that may be true.
    ModelDependent {
        /// What the primary metric says at the plan's price.
        primary: Verdict,
        /// Secondary metrics that say otherwise.
        against: Vec<String>,
        /// Curves that say otherwise at some load.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        curves: Vec<String>,
    },
    /// The arm gave no figure in any trial.
    Failed(FailedArm),
    /// Nothing is said, because the comparison is not fair.
    Withheld {
        /// Ids of the checks that failed.
        failed_checks: Vec<String>,
    },
}

impl Conclusion {
    /// The conclusion as one word.
    pub fn word(&self) -> &'static str {
        self.into()
    }

    /// Curves that speak against the primary metric at some load.
    pub fn curves(&self) -> &[String] {
        match self {
            Self::TradeOff { curves, .. } | Self::ModelDependent { curves, .. } => curves,
            Self::Better
            | Self::Worse
            | Self::Equivalent
            | Self::Undecided { .. }
            | Self::Failed(_)
            | Self::Withheld { .. } => &[],
        }
    }

    /// Secondary metrics that speak against the primary one.
    pub fn against(&self) -> &[String] {
        match self {
            Self::Undecided { against }
            | Self::TradeOff { against, .. }
            | Self::ModelDependent { against, .. } => against,
            Self::Better
            | Self::Worse
            | Self::Equivalent
            | Self::Failed(_)
            | Self::Withheld { .. } => &[],
        }
    }
}

/// How an arm failed that gave no figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedArm {
    /// Trials that were tried; all of them failed.
    pub trials: u32,
    /// Attempts at them: a failed trial is tried once more.
    pub attempts: u32,
    /// Trials that were not tried after so many failures.
    pub skipped: u32,
    /// Failed attempts by reason.
    pub reasons: BTreeMap<VoidReason, u32>,
    /// What the last one said of itself.
    pub last: String,
}

/// Blocks in which just one arm's trial was an outlier: far worse than the trials around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outliers {
    /// The arm's.
    pub arm: u32,
    /// The baseline's.
    pub baseline: u32,
    /// The probability of so uneven a split of them where the arms are equal.
    pub p_value: f64,
}

/// One block of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The block.
    pub block: u32,
    /// The baseline's figure.
    pub baseline: f64,
    /// The arm's figure.
    pub arm: f64,
    /// Whether the arm ran before the baseline.
    pub arm_first: bool,
}

/// One arm on one workload, averaged over trials: a column of the table of the reports of 2004.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// The workload's id.
    pub workload: String,
    /// The arm's name.
    pub arm: String,
    /// Kernel version string.
    pub kernel: String,
    /// Server version string.
    pub server: String,
    /// Trials measured.
    pub measured: u32,
    /// Attempts that gave no figure, by reason.
    pub voids: BTreeMap<VoidReason, u32>,
    /// What the system used; `None` where no trial was long enough to be sampled.
    pub usage: Option<ArmUsage>,
    /// What the clients saw; `None` for workloads without simulated clients.
    pub clients: Option<ArmClients>,
    /// What set its figures; `None` where clients and network were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ArmLimit>,
    /// Means of all figures over trials, in the order of the metrics.
    pub figures: Vec<(MetricSpec, f64)>,
}

/// What the system used under one arm, mean over trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmUsage {
    /// Share of CPU time in programs, 0 to 1.
    pub cpu_user: f64,
    /// Share of CPU time in the kernel, 0 to 1.
    pub cpu_system: f64,
    /// Memory in use, in bytes.
    pub memory_used_bytes: f64,
    /// Highest swap in use in any trial, in bytes.
    pub swap_used_bytes: u64,
    /// Share of CPU time spent sampling, 0 to 1.
    pub sampling: f64,
    /// Context switches of all tasks, per second.
    pub context_switches_per_s: f64,
    /// Whether it is the clients' host that was seen, because the system is elsewhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_clients: bool,
}

/// What the simulated clients of one arm saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmClients {
    /// Pages served, all trials together.
    pub served: u64,
    /// Pages served per second, mean over trials.
    pub served_per_s: f64,
    /// Pages served by the server's address, all trials together; empty where connections go to one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ok_by_address: BTreeMap<String, u64>,
    /// Mean time of a page, in milliseconds, all trials together.
    pub mean_ms: f64,
    /// Unsuccessful requests by class, all trials together.
    pub faults: BTreeMap<Fault, u64>,
    /// Pages served in each second of the window, mean over trials: `(second, pages)`.
    pub over_time: Vec<(f64, f64)>,
    /// Latency quantile curve of all trials merged: `(quantile, milliseconds)`.
    pub latency_curve: Vec<(f64, f64)>,
}

/// A figure against the load under one arm, all trials together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmCurve {
    /// The workload's id.
    pub workload: String,
    /// The arm's name.
    pub arm: String,
    /// Trials behind it.
    pub trials: u32,
    /// The median over trials at each load.
    pub typical: Curve,
    /// The lowest trial at each load, in the order of the points of `typical`.
    pub lowest: Vec<f64>,
    /// The highest trial at each load.
    pub highest: Vec<f64>,
    /// What `typical` comes to; `None` where less is better, over time, or where nothing was ever above zero.
    pub shape: Option<Shape>,
}

/// A workload's primary figure against CPUs, in arms that differ in nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// The figure on each number of CPUs, an arm each; `curve.arm` is what the arms have in common, in words.
    pub curve: ArmCurve,
    /// The numbers of CPUs, fewest first, one for each point of the curve.
    pub steps: Vec<ScalingStep>,
    /// What the figures come to; `None` with fewer than three numbers of CPUs, or where nothing fits.
    pub law: Option<ScalingLaw>,
}

/// An arm of a group that differs in CPUs alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScalingStep {
    /// CPUs.
    pub cpus: u32,
    /// The arm's name.
    pub arm: String,
    /// Trials measured.
    pub trials: u32,
    /// How many times as good as the fewest CPUs, from block to block; `None` where no block has both.
    pub speed_up: Option<Spread>,
    /// The speed-up as a share of what as many CPUs more would give at the best.
    pub efficiency: Option<f64>,
}

/// The universal scalability law, fitted. Speed goes as `N / (1 + contention (N - 1) + coherence N (N - 1))`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScalingLaw {
    /// Share of the work that is done in turn.
    pub contention: Spread,
    /// What each pair of CPUs costs.
    pub coherence: Spread,
    /// CPUs beyond which it gets worse; `None` where the law has no such number.
    pub peak: Option<f64>,
    /// Blocks that were fitted each by itself; 0 where it was fitted once, to the medians.
    pub blocks: u32,
    /// The law in the unit of the curve, to be drawn.
    pub line: Vec<Point>,
}

/// A number over blocks: the middle one, the lowest, and the highest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub typical: f64,
    /// Lowest.
    pub lowest: f64,
    /// Highest.
    pub highest: f64,
}

/// A fact that is not the same in all arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The fact's key.
    pub fact: String,
    /// Its value for each arm, in most of the arm's trials; `None` where the arm has no such fact. An arm whose trials do not tell is
    /// not there.
    pub values: BTreeMap<String, Option<String>>,
    /// Arms whose own trials do not agree, with all values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub varying: BTreeMap<String, Vec<Seen>>,
    /// Whether the plan names it (kernel, command line, sysctl) or it follows from the kernel.
    pub declared: bool,
    /// What it is about.
    #[serde(default)]
    pub class: Class,
    /// The name that it has in arms that know it by an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formerly: Option<String>,
    /// What would give all arms one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
}

impl Difference {
    /// Whether it counts: the plan does not name it, and it is more than another name of the same.
    pub fn counts(&self) -> bool {
        !self.declared && self.class != Class::Renamed
    }
}

/// All that `judge` says about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Version of this format.
    pub version: u32,
    /// Name of the rule that decided.
    pub rule: String,
    /// What is said first: by workload and arm.
    #[serde(default)]
    pub headlines: Vec<Headline>,
    /// Comparisons, by workload, arm and metric, primaries first.
    pub comparisons: Vec<Comparison>,
    /// Averages of each workload and arm.
    pub arm_summaries: Vec<ArmSummary>,
    /// Figures against the load, by workload, curve and arm.
    #[serde(default)]
    pub curves: Vec<ArmCurve>,
    /// Primary figures against CPUs, by workload and group of arms that differ in nothing else.
    #[serde(default)]
    pub scaling: Vec<Scaling>,
    /// Arms against the baseline at each load, by workload, arm and curve.
    #[serde(default)]
    pub by_load: Vec<ByLoad>,
    /// What headlines hang on, by workload and arm; none at an interim analysis.
    #[serde(default)]
    pub robustness: Vec<Robustness>,
    /// How fast the host was beside each arm, by workload and arm; none where figures do not hang on it.
    #[serde(default)]
    pub host_speed: Vec<HostSpeed>,
    /// Arms that moved one way in all of several workloads.
    #[serde(default)]
    pub one_sided: Vec<OneSided>,
    /// What the machine's A/A runs say of it.
    #[serde(default)]
    pub a_a: History,
    /// What long trials say, by workload; none where none was long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub soaks: Vec<soak::Soak>,
    /// What each node measured; none where the run was no fleet's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<nodes::NodeSummary>,
    /// What the plan had done to the systems on purpose, by workload, disturbance and arm; empty where it plans nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<PlannedSummary>,
    /// What differed between the arms.
    pub differences: Vec<Difference>,
    /// What of it matters.
    #[serde(default)]
    pub weighed: Weighed,
    /// Faults that kernels and services logged.
    #[serde(default)]
    pub defects: Defects,
    /// What a reader must know beside the figures, by kind: gates, failures, warnings.
    pub findings: Vec<Finding>,
    /// Results of the fairness checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fairness: Vec<fairness::CheckResult>,
    /// Chance, at the most, that equal arms are called better or worse by any workload: error rates, added up.
    #[serde(default)]
    pub any_false: f64,
}

impl Judgement {
    /// The comparison of one arm on one metric.
    pub fn comparison(&self, workload: &str, arm: &str, metric: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| {
            comparison.workload == workload
                && comparison.arm == arm
                && comparison.spec.name == metric
        })
    }

    /// Comparisons on primary metrics: those that carry the verdict.
    pub fn primaries(&self) -> impl Iterator<Item = &Comparison> {
        let comparisons = self.comparisons.iter();
        comparisons.filter(|comparison| comparison.spec.role == Role::Primary)
    }
}
