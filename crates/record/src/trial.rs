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

/// Identifies a trial of the schedule. Each boot of a trial is an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Trial {
    /// Position in the schedule, counted from 1.
    pub number: u32,
    /// Block, counted from 1 for each workload.
    pub block: u32,
    /// Position in the block, counted from 1.
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

/// Phases of a job, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Modules, file systems, sysctls, namespaces.
    SettingUp,
    /// Data is created and services are started.
    Starting,
    /// Waiting until the system is idle.
    Settling,
    /// Warm-up of the load.
    WarmingUp,
    /// The load in the window.
    Measuring,
    /// Facts are collected and responses are verified.
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

/// The kernel of a system that does not report it.
pub const NOT_KNOWN: &str = "not known";

/// Result of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Its measurement; the host adds what only it can observe.
    pub measurement: Measurement,
    /// The window by the system's clock; zeros if it was not measured.
    pub metered: Metered,
    /// Facts that fairness checks compare.
    pub facts: Facts,
}

/// The window of a trial by the system's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metered {
    /// Its length in nanoseconds.
    pub window_ns: u64,
    /// Total busy time of all CPUs in it, in nanoseconds.
    pub busy_ns: u64,
}

/// A phase of an attempt, as the host observes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostPhase {
    /// From power-on to the agent's first message.
    Booting,
    /// Modules, file systems, sysctls, namespaces.
    SettingUp,
    /// Data is created and services are started.
    Starting,
    /// Waiting until the system is idle.
    Settling,
    /// Warm-up of the load.
    WarmingUp,
    /// The load in the window.
    Measuring,
    /// Facts are collected and responses are verified.
    Collecting,
    /// The machine is powered off.
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

/// Host time of a phase.
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
    /// It was measured, and every response was checked.
    Measured(Box<Measurement>),
    /// It failed and has no figures.
    Void(Void),
    /// It was not made, with the reason.
    Skipped(String),
}

/// Results of a measured trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Its figures, the primary one first. If the clock counts instructions, they are computed from charged ones.
    pub figures: Vec<Figure>,
    /// Figures against the load, for ramps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// Executed instructions; absent if the clock does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Box<Instructions>>,
    /// Hardware counters of a window by the wall clock; absent if they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_counters: Option<HardwareCounters>,
    /// Results of the clients; absent for workloads without simulated clients.
    pub load: Option<LoadResult>,
    /// Clients and network during the window; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<LoadPath>,
    /// Planned disturbances, in the order of their beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<DisturbanceRecord>,
    /// Resource usage of the system in the window.
    pub usage: Usage,
    /// From power-on to the agent's first message, in host milliseconds.
    pub boot_ms: u64,
    /// Time of a fixed computation on the host, in nanoseconds: the longer of one before the boot and one after the end; 0 if it was
    /// not run.
    pub spin_ns: u64,
    /// Version string of the kernel.
    pub kernel: String,
    /// Version string of the server.
    pub server: String,
}

impl Measurement {
    /// Requests that failed because of the server, without those attributed to planned disturbances.
    pub fn unplanned_failures(&self) -> u64 {
        let faults = self.load.iter().flat_map(|load| &load.faults);
        let server_faults = faults.filter(|(fault, _)| !fault.is_clients_own());
        let failed = server_faults.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        failed.saturating_sub(planned_failures(&self.disturbances))
    }
}

impl Outcome {
    /// The measurement; `None` if the trial was not measured.
    pub fn measured(&self) -> Option<&Measurement> {
        match self {
            Self::Measured(measurement) => Some(measurement),
            Self::Void(_) | Self::Skipped(_) => None,
        }
    }

    /// The measurement, mutable; `None` if the trial was not measured.
    pub fn measured_mut(&mut self) -> Option<&mut Measurement> {
        match self {
            Self::Measured(measurement) => Some(measurement),
            Self::Void(_) | Self::Skipped(_) => None,
        }
    }
}

/// Why a trial failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Void {
    /// The kind of failure.
    pub reason: VoidReason,
    /// What happened.
    pub detail: String,
    /// The last lines of the console.
    pub console: Vec<String>,
}

/// Kinds of failure, which are counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VoidReason {
    /// The agent sent nothing within the boot time-out.
    BootTimeout,
    /// The agent stopped sending.
    Silent,
    /// The kernel panicked.
    Panic,
    /// The machine exited unexpectedly.
    MachineExit,
    /// The machine could not be started.
    StartFailed,
    /// The trial exceeded its time limit.
    Overrun,
    /// A service did not start, or died.
    ServiceFailed,
    /// The agent could not do its work.
    AgentFailed,
    /// Responses were wrong, or none was right.
    CheckFailed,
    /// The guest's machine is not what the clock needs.
    WrongMachine,
    /// The count does not match the window: marks are missing or too many, or its length differs from the guest's.
    Miscounted,
    /// The arm's kernel does not have a setting, or refuses its value. A retry would fail as well.
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
