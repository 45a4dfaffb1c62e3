//! The fairness checks: what would make this comparison wrong?
//!
//! Each check is a file below `checks`: what must hold, why it matters, how to mend it and what the check reads.
//! docs/reference/fairness.md is generated from these texts.
//!
//! ```text
//! plan ----------------> checks that need no boot, and results of others that the plan predicts (`foreseen`)
//! plan ----------------> checks that need no boot --+
//! run, judgement ------> all others ----------------+--> results: passed, failed, accepted, unknown, not applicable
//! ```
//! No check passes on a missing fact.

pub mod checks;
pub mod document;
mod equal;
mod foreseen;
pub mod subject;
pub mod tell;
#[cfg(test)]
pub mod tests;

use std::collections::BTreeMap;

use plan::Plan;
use record::rundir::Run;
use record::verdict::Judgement;
use record::verdict::fairness::{AcceptedBy, CheckResult, Outcome};

pub use crate::topics::fairness::checks::ALL;
pub use crate::topics::fairness::equal::{Cause, Fact};
pub use crate::topics::fairness::subject::Subject;

/// A condition of a fair comparison.
#[derive(Debug)]
pub struct Check {
    /// The check's name: `memory`.
    pub id: &'static str,
    /// The check's subject.
    pub group: Group,
    /// What must hold, in sentences; see the method of this name.
    pub must_hold: &'static str,
    /// Why it matters, in sentences: a known case, or the effect on figures.
    pub why: &'static str,
    /// How to mend it, in sentences; the first one is the usual remedy.
    pub mend: &'static str,
    /// What the check reads, without a final period.
    pub reads: &'static str,
    /// How the result is computed.
    pub judge: Judge,
    /// What the plan predicts about the result before anything boots.
    pub foreseen: Foreseen,
}

/// What a plan predicts about a check that needs a run.
#[derive(Debug, Clone, Copy)]
pub enum Foreseen {
    /// Nothing.
    Nothing,
    /// Planned disturbances may make it fail: CPUs idle while a link is down, or a rate falls and rises.
    ByDisturbances,
    /// Kernel parameters that change the facts.
    Parameters(&'static [&'static str]),
    /// Sysctls among the facts; a `*` at the end stands for any text.
    Sysctls(&'static [&'static str]),
    /// Something else that a plan can set, except on systems of the network.
    System(fn(&Plan) -> Option<Outcome>),
    /// Something else that any plan can set.
    Plan(fn(&Plan) -> Option<Outcome>),
}

/// The subject of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Arms differ only in what the plan names.
    Arms,
    /// The intended bottleneck limited the figures.
    Bottleneck,
    /// The work was done.
    Work,
    /// The measurement is sound.
    Measurement,
}

impl Group {
    /// All groups, in the order of the page.
    pub const ALL: [Self; 4] = [Self::Arms, Self::Bottleneck, Self::Work, Self::Measurement];

    /// The group as a heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Arms => "Arms differ only in what the plan names",
            Self::Bottleneck => "The right bottleneck",
            Self::Work => "The work was done",
            Self::Measurement => "The measurement is sound",
        }
    }
}

/// How a check's result is computed.
#[derive(Debug, Clone, Copy)]
pub enum Judge {
    /// From the plan alone, before anything boots.
    Plan(fn(&Plan) -> Outcome),
    /// From the records.
    Run(fn(&Subject<'_>) -> Outcome),
    /// All arms must have the same values of these facts.
    Equal(&'static [Fact], Cause),
    /// The same for facts of servers; workloads without a server are left out.
    OfServers(&'static [Fact]),
    /// From the plan before anything boots, and from the records afterwards.
    PlanThenRun(fn(&Plan) -> Outcome, fn(&Subject<'_>) -> Outcome),
}

impl Judge {
    fn of(self, subject: &Subject<'_>) -> Outcome {
        match self {
            Self::Plan(judge) => judge(&subject.run.plan),
            Self::Run(judge) | Self::PlanThenRun(_, judge) => judge(subject),
            Self::Equal(facts, cause) => equal::equal(subject, facts, cause),
            Self::OfServers(facts) => equal::of_servers(subject, facts),
        }
    }
}

impl Check {
    /// What must hold, with the exception for differences that come with kernels.
    pub fn must_hold(&self) -> String {
        match self.judge {
            Judge::Equal(_, Cause::Kernel | Cause::KernelOrMemory) => format!(
                "{} A difference that comes with the kernels is accepted.",
                self.must_hold
            ),
            Judge::Equal(_, Cause::None)
            | Judge::Plan(_)
            | Judge::Run(_)
            | Judge::OfServers(_)
            | Judge::PlanThenRun(..) => self.must_hold.into(),
        }
    }

    /// Whether the plan gives the result before anything boots.
    pub fn is_of_plan(&self) -> bool {
        matches!(self.judge, Judge::Plan(_) | Judge::PlanThenRun(..))
    }
}

/// The results that the plan gives before anything boots: those of checks of the plan, and problems that it predicts for checks of
/// a run.
pub fn of_plan(plan: &Plan) -> Vec<CheckResult> {
    let answered = ALL.iter().filter_map(|check| match check.judge {
        Judge::Plan(judge) | Judge::PlanThenRun(judge, _) => Some(result(check, judge(plan))),
        Judge::Run(_) | Judge::Equal(..) | Judge::OfServers(_) => {
            Some(result(check, foreseen::foresee(plan, check)?))
        }
    });
    answered.collect()
}

/// The results of all checks of a run; `accepted` has the user's reasons by check.
pub fn of_run(
    run: &Run,
    judgement: &Judgement,
    accepted: &BTreeMap<String, String>,
) -> Vec<CheckResult> {
    let subject = Subject { run, judgement };
    let outcome = |check: &Check| {
        let found = check.judge.of(&subject);
        if check.is_of_plan() {
            found
        } else {
            foreseen::named(&run.plan, check, found)
        }
    };
    let answered = ALL.iter().map(|check| result(check, outcome(check)));
    accept(answered.collect(), accepted)
}

/// Results in which failed checks that the user accepted are accepted.
pub fn accept(results: Vec<CheckResult>, accepted: &BTreeMap<String, String>) -> Vec<CheckResult> {
    let with_acceptance = |mut result: CheckResult| {
        if let (Outcome::Failed { details }, Some(reason)) =
            (&mut result.outcome, accepted.get(&result.id))
        {
            result.outcome = Outcome::Accepted {
                by: AcceptedBy::User(reason.clone()),
                details: std::mem::take(details),
            };
        }
        result
    };
    results.into_iter().map(with_acceptance).collect()
}

/// An acceptance without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnusedAcceptance {
    /// No check has this name: it is of another version, or written by hand.
    NoSuchCheck {
        /// The name.
        id: String,
    },
    /// The check did not fail.
    NotFailed {
        /// The check.
        id: String,
        /// The check's status.
        outcome: &'static str,
    },
}

impl UnusedAcceptance {
    /// The named check.
    pub fn id(&self) -> &str {
        match self {
            Self::NoSuchCheck { id } | Self::NotFailed { id, .. } => id,
        }
    }
}

/// Acceptances without effect. A check without an answer may still fail, so its acceptance is kept silently.
pub fn unused_acceptances(
    accepted: &BTreeMap<String, String>,
    results: &[CheckResult],
) -> Vec<UnusedAcceptance> {
    let unused = |id: &String| {
        let id = id.clone();
        let Some(check) = find(&id) else {
            return Some(UnusedAcceptance::NoSuchCheck { id });
        };
        let found = results.iter().find(|result| result.id == check.id)?;
        match &found.outcome {
            Outcome::Failed { .. }
            | Outcome::Unknown { .. }
            | Outcome::Accepted {
                by: AcceptedBy::User(_),
                ..
            } => None,
            Outcome::Passed | Outcome::NotApplicable | Outcome::Accepted { .. } => {
                let outcome = found.outcome.word();
                Some(UnusedAcceptance::NotFailed { id, outcome })
            }
        }
    };
    accepted.keys().filter_map(unused).collect()
}

/// The check with this name.
pub fn find(id: &str) -> Option<&'static Check> {
    ALL.iter().find(|check| check.id == id).copied()
}

/// Whether the result depends on the plan alone, so that no later trial can change it.
pub fn is_of_plan(id: &str) -> bool {
    find(id).is_some_and(|check| matches!(check.judge, Judge::Plan(_)))
}

fn result(check: &Check, outcome: Outcome) -> CheckResult {
    CheckResult {
        id: check.id.into(),
        outcome,
    }
}
