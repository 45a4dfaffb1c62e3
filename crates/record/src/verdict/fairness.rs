//! What the checks of the fairness gate found, as data: `fairness` finds it, `report` puts it into words.

use std::collections::BTreeMap;

use plan::setting::SettingKind;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::finding::Severity;
use super::limit::Limit;
use super::weighed::{Class, Pin, Seen};

/// One check and what it found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The check.
    pub id: String,
    /// What it found.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Outcome {
    /// Nothing amiss.
    Pass,
    /// The question does not arise on this machine or with these workloads.
    #[strum(serialize = "not applicable")]
    NotApplicable,
    /// Something is amiss that the plan, the kernels or the user have named.
    Declared {
        /// Who named it.
        by: Declaration,
        /// What it is.
        details: Vec<Detail>,
    },
    /// Something is amiss: the headline is withheld.
    Violation {
        /// What it is.
        details: Vec<Detail>,
    },
    /// Facts are missing, so nothing is said.
    #[strum(serialize = "not known")]
    NotKnown {
        /// Which.
        missing: Vec<Missing>,
    },
}

/// What is missing for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Missing {
    /// A fact that trials record; a `*` stands for any text.
    Fact {
        /// Its name.
        fact: String,
    },
    /// A fact that others tell and this arm does not.
    OfArm {
        /// Its name.
        fact: String,
        /// The arm.
        arm: String,
    },
    /// A file beside a trial's record.
    File {
        /// Its name.
        file: String,
        /// The trial's number.
        trial: u32,
    },
    /// A trial that was measured.
    Trial,
    /// Blocks.
    Blocks {
        /// How many are needed.
        needed: u32,
    },
    /// A narrower interval: the one that there is reaches past what passes.
    Precision,
    /// What a system on the network does not tell.
    SystemOnNetwork,
}

/// Who named what is amiss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Declaration {
    /// The plan: arms differ in it because they are meant to.
    Plan,
    /// The kernels: they come so, and they are what is compared.
    Kernel,
    /// The kernels, or the memory that arms differ in and that kernels work out sizes from.
    KernelOrMemory,
    /// A plan that compares products as shipped: it comes with them.
    AsShipped,
    /// A plan that pins what can be pinned: this cannot.
    NotPinnable,
    /// The kind of machine: all arms alike have it.
    Machine,
    /// The user gave the run more blocks after it had ended undecided.
    Extended,
    /// The user, with his reason.
    Accepted(String),
}

/// One thing that is amiss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Detail {
    /// Arms differ in a fact.
    Differs {
        /// The fact.
        fact: String,
        /// Its value for each arm; `None` where it has none.
        values: BTreeMap<String, Option<String>>,
    },
    /// Trials of one arm differ in a fact.
    Varies {
        /// The fact.
        fact: String,
        /// The arm.
        arm: String,
        /// All values, those of most trials first.
        values: Vec<Seen>,
    },
    /// Arms differ in a fact, and a setting would give all of them one value.
    Pinnable {
        /// The fact, or the name of the setting in effect.
        fact: String,
        /// Its value for each arm; `None` where it has none.
        values: BTreeMap<String, Option<String>>,
        /// The setting.
        pin: Pin,
    },
    /// Arms differ in facts of a class that nothing would make alike.
    NotPinnable {
        /// The class.
        class: Class,
        /// How many facts.
        facts: u32,
        /// Why not.
        why: Unpinnable,
    },
    /// A number is beyond what it may be.
    Beyond {
        /// The workload's id; empty where it is of the whole run.
        workload: String,
        /// The arm; empty where it is of all.
        arm: String,
        /// What was measured.
        quantity: Quantity,
        /// How much.
        value: f64,
        /// How much it may be.
        limit: f64,
    },
    /// An arm has settings of its own, and others have none.
    OneSided {
        /// Arms with settings.
        tuned: Vec<String>,
        /// Arms without.
        untuned: Vec<String>,
        /// Which settings, where the others have some of another kind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        settings: Option<SettingKind>,
    },
    /// Who tuned an arm, or left it alone, and why.
    Tuned {
        /// The arm.
        arm: String,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// An arm does what the check asks about.
    Arm {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
    },
    /// An arm's figures were set by something else than its server.
    Limited {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// By what.
        limit: Limit,
    },
    /// An address of a system answered another share of the requests than it should.
    AddressShare {
        /// The workload's id.
        workload: String,
        /// The arm.
        arm: String,
        /// The address.
        address: String,
        /// What it answered, as a share of its even one.
        share: f64,
        /// How much that should be.
        limit: f64,
    },
    /// A disturbance of the plan was felt by some arms only.
    Unfelt {
        /// The workload's id.
        workload: String,
        /// The disturbance's name.
        disturbance: String,
        /// Arms that felt it.
        felt: Vec<String>,
        /// Arms that did not.
        unfelt: Vec<String>,
    },
    /// The plan keeps disturbed blocks: none is run again.
    DisturbedBlocksKept,
    /// A workload does what the check asks about.
    Workload {
        /// The workload's id.
        workload: String,
    },
}

/// Why nothing makes arms alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unpinnable {
    /// It was decided when the kernel was built.
    Built,
    /// Not all kernels have it.
    Missing,
    /// It cannot be set, or is set alike already.
    Fixed,
}

/// What was measured.
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
    /// Share of CPU time in which the disk was waited for.
    DiskWait,
    /// Share of requests that failed.
    FailedRequests,
    /// Requests that were due and never sent.
    UnsentRequests,
    /// Rate at the window's end over that at its beginning.
    Drift,
    /// Requests a second by which the queue grew.
    BacklogGrowth,
    /// Share of CPU time that a hypervisor took.
    Steal,
    /// Share of CPU time that sampling took.
    Sampling,
    /// Outliers of one arm.
    Outliers,
    /// Attempts of one arm that failed.
    FailedAttempts,
    /// Blocks that were run again.
    DisturbedBlocks,
    /// Blocks in which the arm ran first.
    FirstInBlock,
    /// Probability of a wrong verdict that the plan accepts.
    ErrorRate,
    /// Time of a fixed piece of work on the host beside the arm, over that beside the baseline.
    HostTime,
    /// Evidence of A/A runs against the machine.
    Evidence,
}

impl Outcome {
    /// Its name in JSON and on the terminal.
    pub fn word(&self) -> &'static str {
        self.into()
    }

    /// How much it weighs; `None` where nothing is amiss.
    pub fn severity(&self) -> Option<Severity> {
        match self {
            Self::Pass | Self::NotApplicable => None,
            Self::Declared { .. } => Some(Severity::Declared),
            Self::Violation { .. } => Some(Severity::Violation),
            Self::NotKnown { .. } => Some(Severity::NotKnown),
        }
    }
}

impl Detail {
    /// Whether it bears on what is said of an arm against the baseline on a workload.
    pub fn concerns(&self, workload: &str, arm: &str, baseline: &str) -> bool {
        let is_workload = |name: &str| name.is_empty() || name == workload;
        let is_compared = |name: &str| name.is_empty() || name == arm || name == baseline;
        let is_only_one = |names: &[String]| {
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
            Self::OneSided { tuned, .. } => is_only_one(tuned),
            Self::Unfelt { workload, felt, .. } => is_workload(workload) && is_only_one(felt),
            Self::Tuned { arm, .. } | Self::Varies { arm, .. } => is_compared(arm),
            Self::NotPinnable { .. } | Self::DisturbedBlocksKept => true,
            Self::Workload { workload } => is_workload(workload),
        }
    }
}

/// The violations that withhold what is said of an arm against the baseline on a workload.
pub fn withholding<'f>(
    checks: &'f [CheckResult],
    workload: &str,
    arm: &str,
    baseline: &str,
) -> Vec<&'f CheckResult> {
    let concerns = |check: &&CheckResult| {
        matches!(&check.outcome, Outcome::Violation { details }
        if details.iter().any(|detail| detail.concerns(workload, arm, baseline)))
    };
    checks.iter().filter(concerns).collect()
}

/// The checks that found something amiss that nobody has declared.
pub fn violations(checks: &[CheckResult]) -> impl Iterator<Item = &CheckResult> {
    checks
        .iter()
        .filter(|check| matches!(check.outcome, Outcome::Violation { .. }))
}

/// Violations that the user has accepted, with the reasons.
pub fn all_accepted(checks: &[CheckResult]) -> impl Iterator<Item = (&CheckResult, &str)> {
    checks.iter().filter_map(|check| match &check.outcome {
        Outcome::Declared {
            by: Declaration::Accepted(reason),
            ..
        } => Some((check, reason.as_str())),
        _ => None,
    })
}

/// Accepted violations that would otherwise withhold what is said of an arm against the baseline on a workload.
pub fn accepted<'f>(
    checks: &'f [CheckResult],
    workload: &str,
    arm: &str,
    baseline: &str,
) -> Vec<(&'f CheckResult, &'f str)> {
    let concerns = |(check, _): &(&CheckResult, &str)| {
        matches!(&check.outcome, Outcome::Declared { details, .. }
        if details.iter().any(|detail| detail.concerns(workload, arm, baseline)))
    };
    all_accepted(checks).filter(concerns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_bears_on_whom_it_is_about() {
        let of_arm = Detail::Arm {
            workload: "web".into(),
            arm: "7.2".into(),
        };
        assert!(of_arm.concerns("web", "7.2", "6.1"));
        assert!(!of_arm.concerns("web", "7.3", "6.1") && !of_arm.concerns("db", "7.2", "6.1"));
        // What is wrong with the baseline is wrong with every comparison.
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
