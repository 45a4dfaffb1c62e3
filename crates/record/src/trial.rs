//! A trial: one boot of one arm running one workload, and how it ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::curve::Curve;
use crate::disturbances::{DisturbanceRecord, planned_failures};
use crate::evidence::{Facts, Usage};
use crate::hardware_counters::HardwareCounters;
use crate::instructions::Instructions;
use crate::load::LoadResult;
use crate::load_path::LoadPath;
use crate::metric::Figure;

/// Which trial: its place in the schedule. One boot more of the same trial has the next `attempt`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Trial {
    /// Place in the schedule, counted from 1.
    pub number: u32,
    /// Block, counted from 1 for each workload.
    pub block: u32,
    /// Place in the block, counted from 1.
    pub slot: u32,
    /// The arm's name.
    pub arm: String,
    /// The workload's id.
    pub workload: String,
}

impl fmt::Display for Trial {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "trial {:03} (arm {}, {}, block {})",
            self.number, self.arm, self.workload, self.block
        )
    }
}

/// Steps of a job, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Modules, file systems, sysctls, namespaces.
    SettingUp,
    /// Data is made and services are started.
    Starting,
    /// The system is left alone until it is quiet.
    Settling,
    /// The load runs, not counted.
    WarmingUp,
    /// The load runs and counts.
    Measuring,
    /// Facts are collected and answers verified.
    Collecting,
}

impl Phase {
    /// The phase in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::SettingUp => "setting up",
            Self::Starting => "starting services",
            Self::Settling => "waiting until the system is quiet",
            Self::WarmingUp => "warming up",
            Self::Measuring => "measuring",
            Self::Collecting => "collecting",
        }
    }
}

/// The kernel of a system that does not tell it.
pub const NOT_KNOWN: &str = "not known";

/// What a finished job yields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// What its record keeps; the host adds what only it can see.
    pub measurement: Measurement,
    /// The window by the system's clock; zeros where it was not metered.
    pub metered: Metered,
    /// What fairness checks compare.
    pub facts: Facts,
}

/// The window of a trial by the system's own clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    /// Its length in nanoseconds.
    pub window_ns: u64,
    /// How long all CPUs together were busy in it, in nanoseconds.
    pub busy_ns: u64,
}

/// A phase of an attempt, as the host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostPhase {
    /// From power-on to the agent's first word.
    Booting,
    /// Modules, file systems, sysctls, namespaces.
    SettingUp,
    /// Data is made and services are started.
    Starting,
    /// The system is left alone until it is quiet.
    Settling,
    /// The load runs, not counted.
    WarmingUp,
    /// The load runs and counts.
    Measuring,
    /// Facts are collected and answers verified.
    Collecting,
    /// The machine is switched off.
    Stopping,
}

impl HostPhase {
    /// The phase in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::SettingUp => "setting up",
            Self::Starting => "starting services",
            Self::Settling => "settling",
            Self::WarmingUp => "warming up",
            Self::Measuring => "measuring",
            Self::Collecting => "collecting",
            Self::Stopping => "stopping",
        }
    }
}

impl From<Phase> for HostPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::SettingUp => Self::SettingUp,
            Phase::Starting => Self::Starting,
            Phase::Settling => Self::Settling,
            Phase::WarmingUp => Self::WarmingUp,
            Phase::Measuring => Self::Measuring,
            Phase::Collecting => Self::Collecting,
        }
    }
}

/// Host time that a phase took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// The phase.
    pub phase: HostPhase,
    /// Its length in host milliseconds.
    pub host_ms: u64,
}

/// How an attempt at a trial ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran to its end and every answer was checked.
    Measured(Box<Measurement>),
    /// It gave no figure.
    Void(Void),
    /// It was not tried, and why.
    Skipped(String),
}

/// What a measured trial yields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Its figures, the primary one first. Where the clock counts instructions they are of charged ones.
    pub figures: Vec<Figure>,
    /// Figures against the load, of workloads that climb.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// What was executed; absent where the clock counts no instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Box<Instructions>>,
    /// What the CPUs' counters say of a window by the wall clock; absent where nobody asked them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_counters: Option<HardwareCounters>,
    /// What the clients saw; absent for workloads without simulated clients.
    pub load: Option<LoadResult>,
    /// Clients and network meanwhile; absent where they were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<LoadPath>,
    /// What was done to the system on purpose, in the order of its beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<DisturbanceRecord>,
    /// What the system used meanwhile.
    pub usage: Usage,
    /// From power-on to the agent's first word, in host milliseconds.
    pub boot_ms: u64,
    /// What a fixed piece of work took on the host, before the boot or after the end, whichever was longer, in
    /// nanoseconds; 0 where it was not tried.
    pub spin_ns: u64,
    /// Version string of the kernel that ran.
    pub kernel: String,
    /// Version string of the server that served.
    pub server: String,
}

impl Measurement {
    /// Requests that failed by the server's fault and that no planned disturbance accounts for.
    pub fn unplanned_failures(&self) -> u64 {
        let faults = self.load.iter().flat_map(|load| &load.faults);
        let of_server = faults.filter(|(fault, _)| !fault.is_clients_own());
        let failed = of_server.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        failed.saturating_sub(planned_failures(&self.disturbances))
    }
}

impl Outcome {
    /// What was measured; `None` where the trial gave no figure.
    pub fn measured(&self) -> Option<&Measurement> {
        match self {
            Self::Measured(measurement) => Some(measurement),
            Self::Void(_) | Self::Skipped(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn measured_mut(&mut self) -> Option<&mut Measurement> {
        match self {
            Self::Measured(measurement) => Some(measurement),
            Self::Void(_) | Self::Skipped(_) => None,
        }
    }
}

/// Why a trial gave no figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Void {
    /// The kind of failure.
    pub reason: VoidReason,
    /// What happened, in words.
    pub detail: String,
    /// The last lines of the console.
    pub console: Vec<String>,
}

/// Kinds of failure, each counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VoidReason {
    /// The agent did not speak within the boot time-out.
    BootTimeout,
    /// The agent fell silent.
    Silent,
    /// The kernel panicked.
    Panic,
    /// The machine ended by itself.
    MachineExit,
    /// The machine could not be started.
    StartFailed,
    /// The trial ran past its limit.
    Overrun,
    /// A service did not start or died.
    ServiceFailed,
    /// The agent could not do its work.
    AgentFailed,
    /// Answers were wrong, or none was right.
    CheckFailed,
    /// The guest's machine was not what the clock needs.
    WrongMachine,
    /// What was counted is no account of the window: marks missing or too many, or another length than the guest tells.
    Miscounted,
    /// The arm's kernel has no such setting, or takes no such value: it will not the next time either.
    SettingRefused,
    /// The arm's scheduler could not be loaded, was ejected by the kernel, or did not schedule all tasks.
    SchedulerFailed,
}

impl VoidReason {
    /// The kind in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::BootTimeout => "boot time-out",
            Self::Silent => "silent guest",
            Self::Panic => "kernel panic",
            Self::MachineExit => "machine exit",
            Self::StartFailed => "start failed",
            Self::Overrun => "overrun",
            Self::ServiceFailed => "service failed",
            Self::AgentFailed => "agent failed",
            Self::CheckFailed => "check failed",
            Self::WrongMachine => "wrong machine",
            Self::Miscounted => "miscounted",
            Self::SettingRefused => "setting refused",
            Self::SchedulerFailed => "scheduler failed",
        }
    }
}

impl fmt::Display for Void {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.reason.words(), self.detail)
    }
}
