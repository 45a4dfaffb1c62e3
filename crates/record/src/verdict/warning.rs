//! What a reader must know beside the figures, as data: gates, setbacks, warnings. `report` puts them into words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Outliers;
use crate::evidence::{Damage, EvidenceFile};
use crate::hardware_counters::NoCounters;
use crate::load::Fault;
use crate::trial::VoidReason;

/// An arm that fails, however fast it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// The workload's id.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// The arm that it is measured by.
    pub baseline: String,
    /// What happened.
    pub failure: GateFailure,
}

/// What makes an arm fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum GateFailure {
    /// It gave no figure in these blocks, and the baseline gave one in every block.
    MissingFigures {
        /// The blocks.
        blocks: Vec<u32>,
    },
    /// Its clients met faults that the baseline's never met.
    NewFaults {
        /// Their classes.
        faults: Vec<Fault>,
    },
}

/// What went wrong in a run, beside the gates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Setback {
    /// Attempts without a figure.
    FailedTrials {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// Attempts that failed.
        failed: u32,
        /// All attempts.
        attempts: u32,
        /// Those that failed, by reason.
        reasons: BTreeMap<VoidReason, u32>,
    },
    /// Attempts fail more often on one arm than on others.
    UnevenFailures {
        /// The workload's id.
        workload: String,
        /// Attempts that failed, by arm.
        failed: BTreeMap<String, u32>,
    },
    /// Blocks in which an arm was tried and gave no figure.
    IncompleteBlocks {
        /// The workload's id.
        workload: String,
        /// Blocks that were begun.
        begun: u32,
        /// The blocks.
        blocks: Vec<u32>,
    },
    /// Blocks that something outside disturbed; they were run again, and their first figures do not count.
    DisturbedBlocks {
        /// The workload's id.
        workload: String,
        /// The blocks.
        blocks: Vec<DisturbedBlock>,
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

/// What a reader must know before the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
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
        /// The workload's id.
        workload: String,
        /// Whole blocks so far.
        blocks: u32,
        /// Blocks that the plan wants.
        wanted: u32,
    },
    /// Requests that the server failed.
    FailedRequests(RequestCount),
    /// Requests that the clients themselves lost.
    LostByClients(RequestCount),
    /// Requests that were due and never sent.
    UnsentRequests(RequestCount),
    /// Clients were held up themselves, so that it shows in a latency that is a metric, or more often beside one arm than another.
    StalledClients {
        /// The workload's id.
        workload: String,
        /// Arms in whose trials that shows in a latency.
        arms: Vec<StalledClients>,
    },
    /// CPU time that the work of the arm did not use.
    UnusedCpu {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// What the CPUs did instead.
        state: CpuState,
        /// Share of all CPU time.
        share: f64,
    },
    /// A null server served less than systems on the network did, and is no ceiling.
    LowCeiling {
        /// The workload's id.
        workload: String,
        /// The arms that served more.
        arms: Vec<String>,
    },
    /// The clients' host had little CPU time left.
    BusyClients {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// Share of the host's CPU time that was idle.
        idle: f64,
    },
    /// The rate changed through the window.
    Unsettled {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// Rate in the last third of the window over that in the first.
        ratio: f64,
    },
    /// Requests come faster than the arm answers them.
    FallsBehind {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// Requests by which more are under way with each second.
        growth_per_s: f64,
        /// Requests that are due in a second.
        due_per_s: f64,
    },
    /// A system on the network answered with one content in some trials and with another one in others.
    ChangedResponse {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// What was asked for.
        path: String,
        /// How many contents there were.
        contents: u32,
    },
    /// The arm ran out of memory.
    Swapped {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// The most swap in use.
        bytes: u64,
    },
    /// The plan names different kernels for these arms, and the same one ran.
    SameKernel {
        /// The workload's id.
        workload: String,
        /// The arms.
        arms: Vec<String>,
    },
    /// One arm has outliers more often than the other.
    Outliers {
        /// The workload's id.
        workload: String,
        /// The metric.
        metric: String,
        /// The arm that is compared with the baseline.
        arm: String,
        /// How many.
        outliers: Outliers,
    },
    /// A metric whose figures cannot be compared; its comparison says why.
    NotCompared {
        /// The workload's id.
        workload: String,
        /// The metric.
        metric: String,
        /// The arm.
        arm: String,
        /// Which of the arm and the baseline has blocks without a figure of it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lacking: Vec<String>,
    },
    /// Two arms are the same system.
    EqualArms {
        /// The first in the plan.
        arm: String,
        /// The other one.
        twin: String,
    },
    /// An arm has more virtual CPUs than the host has to run them on.
    SharedCpus {
        /// The arm.
        arm: String,
        /// Its CPUs.
        cpus: u32,
        /// The host's.
        host_cpus: u32,
    },
    /// An arm ran on another number of CPUs than the plan gives it.
    MissingCpus {
        /// The arm.
        arm: String,
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

/// How many requests of one arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCount {
    /// The workload's id.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// Requests, all trials together.
    pub count: u64,
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

/// What CPUs did that did not work for the arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuState {
    /// Nothing.
    Idle,
    /// Nothing, while the disk was read under a counted clock.
    WaitingForDisk,
    /// The hypervisor took them.
    Stolen,
    /// They sampled the system.
    Sampling,
}
