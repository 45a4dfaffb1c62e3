//! Why an arm differs: what an explanation comes to, as data. Its JSON is this, key by key.

use serde::{Deserialize, Serialize};

use crate::account::{CounterUnit, SampleClock, WaitState, WorkUnit};
use crate::verdict::call_tree::CallTree;
use crate::verdict::mechanism::{Mechanism, Presence};

/// Version of the JSON. Since 2 mechanisms have functions that are not significant too.
pub const VERSION: u32 = 1;

/// One arm against the baseline on one workload, explained. Differences are arm minus baseline, figures are means over `blocks`
/// blocks, intervals are of each row by itself at `confidence`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// Version of this format.
    pub version: u32,
    /// The workload's id.
    pub workload: String,
    /// The arm that others are compared with.
    pub baseline: String,
    /// The arm that is explained.
    pub arm: String,
    /// Where one arm's own boots are explained: which. `baseline` stands for its fast boots then, `arm` for its slow ones, and there are
    /// no intervals, because the groups were chosen by the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Within>,
    /// What instructions and waits are divided by: `request`, `run` or `second`.
    pub per: WorkUnit,
    /// The metric whose difference is explained. What the mechanisms sum to is always instructions `per` work.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The metric of the baseline and of the arm, in the blocks that are explained.
    pub figures: [f64; 2],
    /// The metric's difference.
    pub difference: f64,
    /// Lower end of its interval; `None` with too few blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Of the difference, what the mechanisms do not account for. `None` where the metric is not one of instructions, so
    /// that there is nothing that they would have to sum to.
    pub remainder: Option<f64>,
    /// Instructions a request that the account has, in either arm and their difference.
    pub account: Side,
    /// Complete blocks with an account of both arms; of one arm's own boots, their number.
    pub blocks: u32,
    /// The fewest blocks of which anything can be named at this error rate.
    pub least_blocks: u32,
    /// Chance that anything at all is named where the arms are the same; a fraction.
    pub error_rate: f64,
    /// Level of the intervals; a fraction. `None` with too few blocks.
    pub confidence: Option<f64>,
    /// The failed fairness checks that withhold the run's headline of this arm on this workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_checks: Vec<String>,
    /// Trials that could not be used.
    pub lost: Vec<LostTrial>,
    /// Where instructions went, the largest difference first. They sum to `account`.
    pub mechanisms: Vec<MechanismRow>,
    /// Whose instructions they are, the largest first. They sum to `account`.
    #[serde(default)]
    pub tasks: Vec<TaskRow>,
    /// Functions that one arm alone executed.
    pub unmatched: Unmatched,
    /// Who waited, the significant ones first, then the largest difference.
    pub waits: Vec<WaitRow>,
    /// What string instructions are charged, as a share of all instructions: in the baseline and in the arm.
    pub string_shares: [f64; 2],
    /// The tail latency, where the workload has one and the metric is no latency itself.
    pub tail: Option<Tail>,
    /// Both arms' call paths.
    pub tree: CallTree,
    /// Returns that no known call led to, as a share of all calls, in the baseline's and the arm's worst trial: what follows one stands
    /// in `tree` without its callers.
    #[serde(default)]
    pub lost_calls: [f64; 2],
    /// How profiles were sampled; `None`: every instruction was counted. What is called instructions is nanoseconds of CPU
    /// time where they were.
    pub sampling: Option<Sampling>,
    /// What was counted beside samples, in the order of names.
    pub counters: Vec<CounterRow>,
}

/// What the latency of the slowest requests did in the blocks that are explained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Arm minus baseline.
    pub difference: f64,
    /// Lower end of its interval; `None` with too few blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// How profiles were sampled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// What paced the samples: `cpu-clock` where any trial was paced by it.
    pub clock: SampleClock,
    /// Samples that were asked for in a second of one CPU.
    pub frequency_hz: u32,
    /// Samples of the baseline and of the arm.
    pub samples: [u64; 2],
    /// Those that were lost.
    pub lost: [u64; 2],
    /// Share of the CPU time that samples cover at their frequency; each stands for its share of the whole. `None` for cycles,
    /// whose number in a second is not known.
    pub covered: Option<[f64; 2]>,
    /// What the primary metric of profiled trials is of that of judged ones, as a ratio of medians; `None` without it.
    pub against_judged: [Option<f64>; 2],
}

/// A counter of either arm, per request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterRow {
    /// Its name.
    pub name: String,
    /// What is counted.
    pub unit: CounterUnit,
    /// In the baseline.
    pub baseline: f64,
    /// In the arm.
    pub arm: f64,
    /// Arm minus baseline.
    pub difference: f64,
    /// Lower end of its interval; `None` with too few blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// Boots of one arm in two groups: the two that differ least among themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Within {
    /// The arm.
    pub arm: String,
    /// Trials that are better by the metric.
    pub fast: Vec<u32>,
    /// Trials that are worse.
    pub slow: Vec<u32>,
}

/// What tasks of one name executed in either arm, per unit of work. Interrupts count for the task that they interrupted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The tasks' name.
    pub name: String,
    /// Instructions of the baseline's.
    pub baseline: f64,
    /// Of the arm's.
    pub arm: f64,
    /// Arm minus baseline.
    pub difference: f64,
    /// Lower end of its interval; `None` with too few blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl TaskRow {
    /// Instructions in the arm that has more of them.
    pub fn larger(&self) -> f64 {
        self.baseline.max(self.arm)
    }
}

/// A figure of either arm and their difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The baseline's.
    pub baseline: f64,
    /// The arm's.
    pub arm: f64,
    /// Arm minus baseline.
    pub difference: f64,
}

/// A trial that is missing from an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostTrial {
    /// Place in the schedule.
    pub trial: u32,
    /// Its block.
    pub block: u32,
    /// Its arm.
    pub arm: String,
    /// Why.
    pub reason: LostReason,
}

/// Why a measured trial cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LostReason {
    /// It was not to have a profile.
    NoProfile,
    /// It was to have one, and none could be made; its record says why.
    NotMade,
    /// The file of its profile is not there any more.
    Gone,
    /// A newer bakeoff has written it.
    Newer,
    /// It did no work, or how much is not finite.
    NoWork,
    /// Its profile is not the one that the trial wrote, or cannot be read; or its call tree is not one, is empty, or counts more
    /// REP iterations than instructions.
    Damaged,
    /// It has no figure of the metric, or one that is not finite.
    NoFigure,
}

/// Why nothing can be explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Unexplained {
    /// The plan has no such workload.
    NoWorkload {
        /// The name that was given.
        workload: String,
    },
    /// The plan has no such arm, or it is the baseline itself.
    NoArm {
        /// The name that was given.
        arm: String,
    },
    /// No measured trial of the workload has such a metric.
    NoMetric {
        /// The name that was given.
        metric: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The metric is a cost of some tasks alone, and the profile counts all of them.
    NotOfAllTasks {
        /// The name that was given.
        metric: String,
    },
    /// There are no two usable trials of the arm.
    OneBoot {
        /// What was lost.
        lost: Vec<LostTrial>,
    },
    /// No block has usable trials of both arms.
    NoBlock {
        /// What was lost.
        lost: Vec<LostTrial>,
    },
}

/// One mechanism, in instructions a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MechanismRow {
    /// Which.
    pub name: Mechanism,
    /// In the baseline.
    pub baseline: f64,
    /// In the arm.
    pub arm: f64,
    /// Arm minus baseline.
    pub difference: f64,
    /// Lower end of its interval; `None` with too few blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Share of the account's difference; below zero where it goes against it. `None` where mechanisms cancel each other so
    /// far that shares say nothing.
    pub share: Option<f64>,
    /// Whether it is more than chance, at the explanation's error rate over all rows.
    pub significant: bool,
    /// p-value, adjusted for all mechanisms and waits; `None` where the row is too small to be tested.
    pub p_value: Option<f64>,
    /// How often what it is there for happened.
    pub event: Option<EventCount>,
    /// Functions that come to a share of all instructions in either arm, and significant ones of any size; the largest difference
    /// first.
    pub functions: Vec<FunctionRow>,
    /// Settings of these kernels that turn a part of a significant mechanism off, or pin it.
    #[serde(default)]
    pub settings: Vec<String>,
}

/// Whether an interval is known and 0 is not in it.
pub fn excludes_zero(low: Option<f64>, high: Option<f64>) -> bool {
    low.zip(high).is_some_and(|(low, high)| low * high > 0.0)
}

impl Why {
    /// The mechanism that makes more of the difference than any that is significant, where there are some, and whose own interval
    /// is apart from 0: it is the likely cause, and what is lacking is blocks.
    pub fn unsure(&self) -> Option<&MechanismRow> {
        let size = |row: &&MechanismRow| row.difference.abs();
        let is_apart = |row: &&MechanismRow| excludes_zero(row.low, row.high);
        let (sure, others): (Vec<_>, Vec<_>) =
            self.mechanisms.iter().partition(|row| row.significant);
        let largest = sure.iter().map(size).max_by(f64::total_cmp)?;
        let mut unsure = others.into_iter().filter(is_apart);
        unsure.find(|row| largest < size(row))
    }
}

impl MechanismRow {
    /// Functions that are more than chance.
    pub fn significant_functions(&self) -> impl Iterator<Item = &FunctionRow> {
        self.functions
            .iter()
            .filter(|function| function.significant)
    }
}

/// How often something happened, per request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EventCount {
    /// What.
    pub kind: EventKind,
    /// In the baseline and in the arm.
    pub per_request: [f64; 2],
}

/// What a mechanism is there for, where one function is called once for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A switch from one task to another.
    ContextSwitch,
    /// A system call.
    SystemCall,
    /// A call of `epoll_wait`.
    EpollWait,
    /// An interrupt of the timer.
    TimerInterrupt,
    /// A page fault.
    PageFault,
}

/// One function, in instructions a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionRow {
    /// Its name without what compilers append; `BINARY: NAME` in programs.
    pub name: String,
    /// Whether it is in both arms.
    pub presence: Presence,
    /// Calls a request, in the baseline and in the arm; 0 in programs.
    pub calls: [f64; 2],
    /// Instructions a call, likewise; `None` where it was not called.
    pub cost_per_call: [Option<f64>; 2],
    /// Instructions a request, in the baseline and in the arm.
    pub per_request: [f64; 2],
    /// Difference in instructions a request.
    pub difference: f64,
    /// Of it, what other numbers of calls make, at the cost of one in the arm that calls it more. `None` where calls are not counted.
    pub by_calls: Option<f64>,
    /// Of it, what another cost of a call makes, for the calls of the arm that calls it less. The two sum to `difference`.
    pub by_cost: Option<f64>,
    /// Whether it is more than chance, and its mechanism too.
    pub significant: bool,
}

/// Functions that one arm alone executed. Nothing is claimed of them: compilers inline and rename.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Unmatched {
    /// In the baseline alone, the costliest first; at most `MOST_NAMED`.
    pub vanished: Vec<LoneFunction>,
    /// How many those are.
    pub vanished_count: u32,
    /// In the arm alone, likewise.
    pub new: Vec<LoneFunction>,
    /// How many those are.
    pub new_count: u32,
    /// Pairs taken for one function under two names: baseline's, arm's; at most `MOST_NAMED`.
    pub renamed: Vec<[String; 2]>,
    /// How many those are.
    pub renamed_count: u32,
}

impl Unmatched {
    /// So many functions are named of each kind.
    pub const MOST_NAMED: usize = 20;
}

/// A function of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoneFunction {
    /// Its name.
    pub name: String,
    /// What it counts for.
    pub mechanism: Mechanism,
    /// Instructions a request.
    pub instructions: f64,
}

/// How waits are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitView {
    /// All waits, in nanoseconds a request.
    Mean,
    /// The longest hundredth of a task's waits, in nanoseconds a wait.
    Slowest,
}

/// Waits of one kind of task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitRow {
    /// The tasks' name.
    pub task: String,
    /// What they waited for.
    pub state: WaitState,
    /// How the waits are summed.
    pub view: WaitView,
    /// In the baseline.
    pub baseline_ns: f64,
    /// In the arm.
    pub arm_ns: f64,
    /// Arm minus baseline.
    pub difference_ns: f64,
    /// Lower end of its interval; `None` with too few blocks.
    pub low_ns: Option<f64>,
    /// Upper end.
    pub high_ns: Option<f64>,
    /// Whether it is more than chance, at the explanation's error rate over all rows.
    pub significant: bool,
    /// p-value, adjusted for all mechanisms and waits; `None` where the row is too small to be tested.
    pub p_value: Option<f64>,
    /// Significant causes of a significant row, the largest difference first.
    pub causes: Vec<WaitCauseRow>,
}

/// What waits of one row are due to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitCauseRow {
    /// The task that ran meanwhile, or the function in which a task blocked; `A → B` of one of the baseline alone and one of the arm alone.
    pub name: String,
    /// In the baseline, in the row's unit.
    pub baseline_ns: f64,
    /// In the arm.
    pub arm_ns: f64,
    /// Arm minus baseline.
    pub difference_ns: f64,
}
