//! What a reader must know beside the figures: arms that fail, trials without a figure, warnings. The topic `findings` of `judge`
//! makes them and puts them into words; [`Severity`] decides what each does to an exit status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::Outliers;
use super::fairness::Quantity;
use crate::evidence::{Damage, EvidenceFile};
use crate::hardware_counters::NoCounters;
use crate::load::Fault;
use crate::trial::VoidReason;

/// How grave a finding is, the gravest first. A gate always fails `--fail-on`, a failed check only if `--fail-on` asks for it.
/// Nothing below fails it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The arm fails, however fast it is.
    Gate,
    /// A fairness check failed, so the headline is withheld.
    FailedCheck,
    /// Trials gave no figure, or blocks were run again.
    Failure,
    /// The figures need it to be understood.
    Warning,
    /// A difference that the plan, the kernels or the user accept.
    Accepted,
    /// A fairness check lacks facts.
    Unknown,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The workload's id; empty for the whole run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// The arm; empty where several are concerned, or all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arm: String,
    /// What was found.
    #[serde(flatten)]
    pub kind: Kind,
}

impl Finding {
    /// A finding about an arm on a workload, either of them empty where the finding is not limited to one.
    pub fn new(workload: &str, arm: &str, kind: Kind) -> Self {
        Self {
            workload: workload.into(),
            arm: arm.into(),
            kind,
        }
    }

    /// Its name in JSON: that of its kind, or of the quantity that is beyond its limit.
    pub fn id(&self) -> &'static str {
        match self.kind {
            Kind::Beyond { quantity, .. } => quantity.into(),
            _ => (&self.kind).into(),
        }
    }

    /// How much it weighs.
    pub fn severity(&self) -> Severity {
        match self.kind {
            Kind::MissingFigures { .. } | Kind::NewFaults { .. } => Severity::Gate,
            Kind::FailedTrials { .. }
            | Kind::UnevenFailures { .. }
            | Kind::IncompleteBlocks { .. }
            | Kind::DisturbedBlocks { .. } => Severity::Failure,
            _ => Severity::Warning,
        }
    }
}

/// What can be found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// The arm gave no figure in these blocks, and the baseline gave one in every block.
    MissingFigures {
        /// The arm that it is compared with.
        baseline: String,
        /// The blocks.
        blocks: Vec<u32>,
    },
    /// The arm's clients met faults that the baseline's never met.
    NewFaults {
        /// The arm that it is compared with.
        baseline: String,
        /// Their classes.
        faults: Vec<Fault>,
    },
    /// Attempts without a figure.
    FailedTrials {
        /// Attempts that failed.
        failed: u32,
        /// All attempts.
        attempts: u32,
        /// Those that failed, by reason.
        reasons: BTreeMap<VoidReason, u32>,
    },
    /// Attempts fail more often on one arm than on others.
    UnevenFailures {
        /// Attempts that failed, by arm.
        failed: BTreeMap<String, u32>,
    },
    /// Blocks in which an arm was tried and gave no figure.
    IncompleteBlocks {
        /// Blocks that were begun.
        begun: u32,
        /// The blocks.
        blocks: Vec<u32>,
    },
    /// Blocks that something outside disturbed; they were run again, and their first figures do not count.
    DisturbedBlocks {
        /// The blocks.
        blocks: Vec<DisturbedBlock>,
    },
    /// A measured number is beyond its limit.
    Beyond {
        /// What was measured.
        quantity: Quantity,
        /// How much, all trials of the arm together.
        value: f64,
        /// How much it may be.
        limit: f64,
    },
    /// Each iteration of string instructions was counted as an instruction: what they moved was not counted.
    UnchargedStrings,
    /// Files beside the records of trials are lost or damaged.
    MissingEvidence {
        /// Which.
        files: Vec<MissingFiles>,
    },
    /// The run was given more blocks than the plan's after it had ended undecided.
    Extended {
        /// Blocks that it may have.
        blocks: u32,
        /// Blocks that the plan has.
        planned_blocks: u32,
        /// Probability of a wrong verdict that it accepts, a fraction.
        error_rate: f64,
        /// The plan's.
        planned_error_rate: f64,
    },
    /// Fewer whole blocks than the plan wants at least.
    FewBlocks {
        /// Whole blocks so far.
        blocks: u32,
        /// Blocks that the plan wants.
        wanted: u32,
    },
    /// Requests that the server failed.
    FailedRequests {
        /// Requests, all trials together.
        count: u64,
    },
    /// Clients were held up themselves, so that it shows in a latency that is a metric, or more often beside one arm than another.
    StalledClients {
        /// Arms in whose trials that shows in a latency.
        arms: Vec<StalledClients>,
    },
    /// A null server served less than systems on the network did, and is no ceiling.
    LowCeiling {
        /// The arms that served more.
        arms: Vec<String>,
    },
    /// Requests come faster than the arm answers them.
    FallsBehind {
        /// Requests by which more are under way with each second.
        growth_per_s: f64,
        /// Requests that are due in a second.
        due_per_s: f64,
    },
    /// A system on the network answered with one content in some trials and with another one in others.
    ChangedResponse {
        /// What was asked for.
        path: String,
        /// How many contents there were.
        contents: u32,
    },
    /// The plan names different kernels for these arms, and the same one ran.
    SameKernel {
        /// The arms.
        arms: Vec<String>,
    },
    /// One arm has outliers more often than the other.
    Outliers {
        /// The metric.
        metric: String,
        /// How many.
        outliers: Outliers,
    },
    /// A metric whose figures cannot be compared; its comparison says why.
    NotCompared {
        /// The metric.
        metric: String,
        /// Which of the arm and the baseline has blocks without a figure of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lacking: Vec<String>,
    },
    /// Two arms are the same system.
    EqualArms {
        /// The other one.
        twin: String,
    },
    /// An arm has more virtual CPUs than the host has to run them on.
    SharedCpus {
        /// Its CPUs.
        cpus: u32,
        /// The host's.
        host_cpus: u32,
    },
    /// An arm ran on another number of CPUs than the plan gives it.
    MissingCpus {
        /// CPUs that it had.
        cpus: u32,
        /// CPUs that the plan says.
        planned: u32,
    },
    /// Windows that the CPUs' counters say nothing of.
    NoHardwareCounters {
        /// Arms with such trials.
        arms: Vec<String>,
        /// Why.
        why: NoCounters,
    },
    /// CPUs that do not count mispredicted branches or misses of the last-level cache.
    FewHardwareEvents {
        /// Arms with such trials.
        arms: Vec<String>,
    },
    /// Other events had the CPUs' counters for a part of the time.
    SharedHardwareCounters {
        /// Lowest share of a window that was counted and not estimated.
        running_share: f64,
    },
    /// Time is counted in executed instructions.
    CountedInstructions,
    /// What drives the work runs inside the guest, on the same CPUs.
    WorkInGuest,
    /// The clients run inside the guest, on the server's CPUs.
    ClientsInGuest,
    /// Kernels differ in whether they share the CPU by session, and the clients are another session on the server's CPUs.
    Autogroup {
        /// Arms that do not.
        off: Vec<String>,
        /// Arms that do.
        on: Vec<String>,
    },
    /// An arm sets autogroup, which has no effect where clients and servers are scheduled as one group.
    AutogroupWithoutEffect,
    /// TCP CUBIC had no HyStart, because clients were beside the servers.
    NoHystart,
    /// The clients run on the guests' host, outside them.
    ClientsOnHost,
    /// The clients run in a guest of their own.
    ClientsInOwnGuest,
    /// What drives the work runs on the box that is compared, on the same CPUs.
    WorkOnBox,
    /// The servers run on the box that is compared, their clients on other systems.
    ClientsOffBox,
    /// All arms ran on a live host, with the clients and all else that it did.
    LiveHost,
    /// The arms are systems on the network that bakeoff did not start.
    OnNetwork {
        /// Arms that told nothing of themselves.
        silent: Vec<String>,
        /// Arms that told something only where they had the address of the one that is asked, because systems were exchanged.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        silent_in_part: Vec<String>,
    },
}

/// A block that was run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DisturbedBlock {
    /// The block.
    pub block: u32,
    /// What disturbed it, each time.
    pub disturbances: Vec<Disturbance>,
}

/// What disturbed a block from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Disturbance {
    /// The hypervisor took CPU time from a trial: steal.
    Steal(CpuTaken),
    /// Other processes of a live host took CPU time from a trial.
    OtherProcesses(CpuTaken),
    /// The host was slow beside a trial: a fixed piece of work took longer than usual.
    SlowHost {
        /// The trial's number.
        trial: u32,
        /// Time that the work took, in nanoseconds.
        took_ns: u64,
        /// Time that it usually takes, in nanoseconds: the median of all trials so far.
        usual_ns: f64,
    },
}

/// CPU time that others took from a trial.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuTaken {
    /// The trial's number.
    pub trial: u32,
    /// Share of its CPU time that was taken.
    pub share: f64,
    /// Share that is usually taken: the median of all trials so far.
    pub usual: f64,
}

/// Files of trials that share a name and what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingFiles {
    /// The file.
    pub file: EvidenceFile,
    /// What became of it.
    pub damage: Damage,
    /// Names of the attempts, as their directories are named.
    pub attempts: Vec<String>,
}

/// How often the clients of one arm were held up themselves: stopped, or without a CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StalledClients {
    /// The arm.
    pub arm: String,
    /// Trials in which that shows in a latency.
    pub stalled: u32,
    /// Trials that were measured.
    pub trials: u32,
    /// The lowest of the quantiles that are metrics in which it shows, 0 to 1; 1 for the longest latency alone.
    pub quantile: f64,
    /// The longest time, in nanoseconds.
    pub longest_ns: u64,
    /// Requests that were due or under way then, all trials together.
    pub requests: u64,
}
