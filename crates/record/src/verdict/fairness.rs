//! Results of the fairness checks, as data. The judge's topic `fairness` computes them and puts them into words.

use std::collections::BTreeMap;

use plan::setting::SettingKind;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::finding::Severity;
use super::limit::Limit;
use super::weighed::{Class, Pin, Seen};

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The check's id.
    pub id: String,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// The check found no problem.
    Passed,
    /// The check does not apply to this machine or these workloads.
    #[strum(serialize = "not applicable")]
    NotApplicable,
    /// The check found a problem that the plan, the kernels or the user accept.
    Accepted {
        /// Who accepts it.
        by: AcceptedBy,
        /// What the check found.
        details: Vec<Detail>,
    },
    /// The check found a problem, so the headline is withheld.
    Failed {
        /// What the check found.
        details: Vec<Detail>,
    },
    /// Facts are missing, so the check has no answer.
    Unknown {
        /// The missing facts.
        missing: Vec<Missing>,
    },
}

/// What is missing for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Missing {
    /// A fact that trials record; a `*` stands for any text.
    Fact {
        /// The fact's name.
        fact: String,
    },
    /// A fact that other arms report and this arm does not.
    OfArm {
        /// The fact's name.
        fact: String,
        /// The arm.
        arm: String,
    },
    /// A file beside a trial's record.
    File {
        /// The file's name.
        file: String,
        /// The trial's number.
        trial: u32,
    },
    /// A measured trial.
    Trial,
    /// Blocks.
    Blocks {
        /// The number of blocks that the check needs.
        needed: u32,
    },
    /// A narrower interval: the present one reaches beyond the limit.
    Precision,
    /// A fact that a system on the network does not report.
    SystemOnNetwork,
}

/// Who accepts a difference or another problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptedBy {
    /// The plan gives the arms this difference.
    Plan,
    /// The difference comes with the compared kernels.
    Kernel,
    /// The difference comes with the kernels, or with sizes that kernels derive from different memory.
    KernelOrMemory,
    /// The plan compares products as shipped, and the difference comes with them.
    AsShipped,
    /// The plan pins what it can; no setting removes this difference.
    NotPinnable,
    /// The kind of machine: it is the same in all arms.
    Machine,
    /// The user added blocks after the run had ended undecided.
    Extended,
    /// The user, with a reason.
    User(String),
}

/// One problem that a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Detail {
    /// Arms differ in a fact.
    Differs {
        /// The fact.
        fact: String,
        /// The value of each arm; `None` if the arm has no such fact.
        values: BTreeMap<String, Option<String>>,
    },
    /// Trials of an arm differ in a fact.
    Varies {
        /// The fact.
        fact: String,
        /// The arm.
        arm: String,
        /// All values, the most frequent first.
        values: Vec<Seen>,
    },
    /// Arms differ in a fact, and a setting could give all of them one value.
    Pinnable {
        /// The fact, or the name of the setting in effect.
        fact: String,
        /// The value of each arm; `None` if the arm has no such fact.
        values: BTreeMap<String, Option<String>>,
        /// The setting.
        pin: Pin,
    },
    /// Arms differ in facts of a class, and no setting makes them equal.
    NotPinnable {
        /// The class.
        class: Class,
        /// The number of facts.
        facts: u32,
        /// The reason.
        why: Unpinnable,
    },
    /// A number is beyond its limit.
    Beyond {
        /// The workload's id; empty for the whole run.
        workload: String,
        /// The arm; empty for all arms.
        arm: String,
        /// What was measured.
        quantity: Quantity,
        /// The measured value.
        value: f64,
        /// The limit.
        limit: f64,
    },
    /// Some arms have settings, and others have none.
    OneSided {
        /// Arms with settings.
        tuned: Vec<String>,
        /// Arms without.
        untuned: Vec<String>,
        /// The kind of settings, if the other arms have settings of another kind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<SettingKind>,
    },
    /// Who tuned an arm or left it untuned, and why.
    Tuned {
        /// The arm.
        arm: String,
        /// The person or group.
        by: String,
        /// The reason.
        reason: String,
    },
    /// The check found this in an arm.
    Arm {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
    },
    /// Something other than the server limited an arm's figures.
    Limited {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// The limit.
        limit: Limit,
    },
    /// An address of a system answered too small a share of the requests.
    AddressShare {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// The address.
        address: String,
        /// The answered requests, relative to an even share.
        share: f64,
        /// The least value that passes.
        limit: f64,
    },
    /// A planned disturbance took effect in some arms only.
    Unfelt {
        /// The workload's id.
        workload: String,
        /// The disturbance's name.
        disturbance: String,
        /// Arms in which it took effect.
        felt: Vec<String>,
        /// Arms in which it did not.
        unfelt: Vec<String>,
    },
    /// The plan keeps disturbed blocks instead of running them again.
    DisturbedBlocksKept,
    /// The check found this in a workload.
    Workload {
        /// The workload's id.
        workload: String,
    },
}

/// Why no setting makes arms equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unpinnable {
    /// The kernel's build decides it.
    Built,
    /// Some kernels do not have it.
    Missing,
    /// It cannot be set, or is equal already.
    Fixed,
}

/// A measured quantity with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Quantity {
    /// Open files that a server may have, for each connection.
    OpenFiles,
    /// Connections that may wait to be accepted, for each client.
    Backlog,
    /// Share of CPU time without work.
    IdleCpu,
    /// Share of the clients' CPU time without work.
    ClientsIdleCpu,
    /// Requests that the clients themselves lost.
    LostByClients,
    /// Bytes of swap in use.
    Swap,
    /// Share of CPU time spent waiting for the disk.
    DiskWait,
    /// Share of requests that failed.
    FailedRequests,
    /// Requests that were due and never sent.
    UnsentRequests,
    /// Rate at the window's end, relative to the beginning.
    Drift,
    /// Growth of the queue, in requests per second.
    BacklogGrowth,
    /// Share of CPU time that a hypervisor took.
    Steal,
    /// Share of CPU time that sampling took.
    Sampling,
    /// Outliers of one arm.
    Outliers,
    /// Failed attempts of one arm.
    FailedAttempts,
    /// Blocks that were run again.
    DisturbedBlocks,
    /// Blocks in which the arm ran first.
    FirstInBlock,
    /// Probability of a wrong verdict that the plan accepts.
    ErrorRate,
    /// Time of fixed work on the host beside the arm, relative to the baseline.
    HostTime,
    /// Evidence of A/A runs against the machine.
    Evidence,
}

impl Outcome {
    /// The status, as the terminal prints it.
    pub fn word(&self) -> &'static str {
        self.into()
    }

    /// The severity; `None` if there is no problem.
    pub fn severity(&self) -> Option<Severity> {
        match self {
            Self::Passed | Self::NotApplicable => None,
            Self::Accepted { .. } => Some(Severity::Accepted),
            Self::Failed { .. } => Some(Severity::FailedCheck),
            Self::Unknown { .. } => Some(Severity::Unknown),
        }
    }
}

impl Detail {
    /// Whether the problem affects the comparison of an arm with the baseline on a workload.
    pub fn concerns(&self, workload: &str, arm: &str, baseline: &str) -> bool {
        let is_workload = |name: &str| name.is_empty() || name == workload;
        let is_compared = |name: &str| name.is_empty() || name == arm || name == baseline;
        let names_one_of_the_two = |names: &[String]| {
            let has = |arm: &str| names.iter().any(|name| name == arm);
            has(arm) != has(baseline)
        };
        match self {
            Self::Differs { values, .. } | Self::Pinnable { values, .. } => {
                values.get(arm) != values.get(baseline)
            }
            Self::Beyond { workload, arm, .. }
            | Self::Arm { workload, arm }
            | Self::Limited { workload, arm, .. }
            | Self::AddressShare { workload, arm, .. } => is_workload(workload) && is_compared(arm),
            Self::OneSided { tuned, .. } => names_one_of_the_two(tuned),
            Self::Unfelt { workload, felt, .. } => {
                is_workload(workload) && names_one_of_the_two(felt)
            }
            Self::Tuned { arm, .. } | Self::Varies { arm, .. } => is_compared(arm),
            Self::NotPinnable { .. } | Self::DisturbedBlocksKept => true,
            Self::Workload { workload } => is_workload(workload),
        }
    }
}

/// The failed checks that withhold an arm's headline on a workload.
pub fn withholding<'f>(
    checks: &'f [CheckResult],
    workload: &str,
    arm: &str,
    baseline: &str,
) -> Vec<&'f CheckResult> {
    let concerns = |check: &&CheckResult| {
        matches!(&check.outcome, Outcome::Failed { details }
        if details.iter().any(|detail| detail.concerns(workload, arm, baseline)))
    };
    checks.iter().filter(concerns).collect()
}

/// All failed checks.
pub fn failed(checks: &[CheckResult]) -> impl Iterator<Item = &CheckResult> {
    checks
        .iter()
        .filter(|check| matches!(check.outcome, Outcome::Failed { .. }))
}

/// Failed checks that the user accepted, with the reasons.
pub fn all_accepted_by_user(checks: &[CheckResult]) -> impl Iterator<Item = (&CheckResult, &str)> {
    checks.iter().filter_map(|check| match &check.outcome {
        Outcome::Accepted {
            by: AcceptedBy::User(reason),
            ..
        } => Some((check, reason.as_str())),
        _ => None,
    })
}

/// Failed checks that the user accepted and that would withhold an arm's headline on a workload.
pub fn accepted_by_user<'f>(
    checks: &'f [CheckResult],
    workload: &str,
    arm: &str,
    baseline: &str,
) -> Vec<(&'f CheckResult, &'f str)> {
    let concerns = |(check, _): &(&CheckResult, &str)| {
        matches!(&check.outcome, Outcome::Accepted { details, .. }
        if details.iter().any(|detail| detail.concerns(workload, arm, baseline)))
    };
    all_accepted_by_user(checks).filter(concerns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_affects_the_comparisons_of_its_arms() {
        let of_arm = Detail::Arm {
            workload: "web".into(),
            arm: "7.2".into(),
        };
        assert!(of_arm.concerns("web", "7.2", "6.1"));
        assert!(!of_arm.concerns("web", "7.3", "6.1") && !of_arm.concerns("db", "7.2", "6.1"));
        // A problem of the baseline affects every comparison.
        assert!(of_arm.concerns("web", "7.3", "7.2"));
        let values = [("6.1", "4 GB"), ("7.2", "1 GB"), ("7.3", "4 GB")];
        let values = values.map(|(arm, value)| (arm.to_string(), Some(value.to_string())));
        let differs = Detail::Differs {
            fact: "memory".into(),
            values: values.into(),
        };
        assert!(differs.concerns("web", "7.2", "6.1") && !differs.concerns("web", "7.3", "6.1"));
        let one_sided = Detail::OneSided {
            tuned: vec!["7.2".into()],
            untuned: vec!["6.1".into(), "7.3".into()],
            settings: None,
        };
        assert!(
            one_sided.concerns("web", "7.2", "6.1") && !one_sided.concerns("web", "7.3", "6.1")
        );
        assert!(one_sided.concerns("web", "7.3", "7.2"));
    }
}
