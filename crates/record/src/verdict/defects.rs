//! Defects of the arms: what their kernels and services told, compared with the baseline's.

use serde::{Deserialize, Serialize};

use crate::defect::{Kind, Severity, When};

/// What is known of all arms' defects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defects {
    /// Whose logs were read; the baseline first.
    pub logs: Vec<ArmLogs>,
    /// Each defect of each arm or of the baseline: by arm, new ones first, then the gravest.
    pub found: Vec<ArmDefect>,
}

/// How far the logs of one arm's trials are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmLogs {
    /// The arm's name.
    pub arm: String,
    /// Attempts whose kernel's log was read by the system itself.
    pub read: u32,
    /// Attempts of whose kernel only the console is known: they ended before the system spoke.
    pub console: u32,
    /// Attempts whose kernel's log could not be read, or that nobody looked at.
    pub unread: u32,
    /// Messages that were overwritten before they were read, all attempts together.
    pub lost: u64,
}

/// Where a defect was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// New in the arm.
    OnlyArm,
    /// In both.
    Both,
    /// Only in the baseline.
    OnlyBaseline,
}

/// A defect of an arm, of the baseline, or of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmDefect {
    /// The arm that is compared with the baseline.
    pub arm: String,
    /// Where it was told.
    pub side: Side,
    /// What happened.
    pub kind: Kind,
    /// What it means: the gravest of either arm.
    pub severity: Severity,
    /// What tells it from others of its kind; may be empty.
    pub top: String,
    /// Reports in the arm, and in the baseline.
    pub reports: Sides<u64>,
    /// Attempts that told of it.
    pub trials: Sides<u32>,
    /// Whether a side without it surely has it not; not so where more defects of the kind were told than are told apart.
    pub is_certain: bool,
    /// Workloads that ran when it was told, in the plan's order.
    pub workloads: Vec<String>,
    /// The first report: the arm's, or the baseline's where the arm has none.
    pub first: FirstReport,
}

/// One number for each side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides<N> {
    /// The arm's.
    pub arm: N,
    /// The baseline's.
    pub baseline: N,
}

/// The first report of a defect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstReport {
    /// The directory of its attempt: `007`, or `007.2`.
    pub attempt: String,
    /// When.
    pub at: When,
    /// Successful requests in that second; absent outside the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok_per_s: Option<u64>,
    /// Its lines.
    pub lines: Vec<String>,
}

impl Defects {
    /// Defects of the gravest kind of one arm on one workload, against the baseline.
    pub fn grave<'d>(
        &'d self,
        workload: &'d str,
        arm: &'d str,
    ) -> impl Iterator<Item = &'d ArmDefect> {
        self.found.iter().filter(move |defect| {
            defect.severity == Severity::Defect
                && defect.arm == arm
                && defect.workloads.iter().any(|id| id == workload)
        })
    }

    /// Attempts whose kernel's log was read.
    pub fn read(&self) -> u32 {
        self.logs.iter().map(|arm| arm.read).sum()
    }
}
