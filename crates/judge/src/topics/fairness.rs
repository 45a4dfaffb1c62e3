//! The fairness gate: what would make this comparison wrong?
//!
//! Each question is a check, in a file of its own below `checks`: what it asks and reads, when it passes, why it matters and how
//! to mend it stand there as data, and docs/reference/fairness.md is made from them.
//!
//! ```text
//! plan ----------------> checks that need no boot, and what others will find by it (`foreseen`)
//! plan ----------------> checks that need no boot --+
//! run, judgement ------> all others ----------------+--> findings: pass, declared, violation, not known, not applicable
//! ```
//! No check passes on a fact that is missing. What has to be disclosed of a run is gathered by `disclosure`.

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
use record::verdict::fairness::{CheckResult, Declaration, Outcome};

pub use crate::topics::fairness::checks::ALL;
pub use crate::topics::fairness::equal::{Cause, Fact};
pub use crate::topics::fairness::subject::Subject;

/// One question that somebody who doubts the comparison would ask.
#[derive(Debug)]
pub struct Check {
    /// Its name: `memory`.
    pub id: &'static str,
    /// What it is about.
    pub group: Group,
    /// The question.
    pub question: &'static str,
    /// What it reads.
    pub reads: &'static str,
    /// When it passes.
    pub passes: &'static str,
    /// Why it matters: a known case, or what it would do to figures.
    pub why: &'static str,
    /// How to mend it.
    pub mend: &'static str,
    /// How it is answered.
    pub judge: Judge,
    /// What the plan tells of its answer before anything boots.
    pub foreseen: Foreseen,
}

/// What a plan tells of a check that a run answers.
#[derive(Debug, Clone, Copy)]
pub enum Foreseen {
    /// Nothing.
    Nothing,
    /// Disturbances that the plan makes on purpose may trip it: CPUs that idle while a link is down, a rate that falls and rises.
    ByDisturbances,
    /// Kernel parameters that change what it reads.
    Parameters(&'static [&'static str]),
    /// Sysctls that it reads; a `*` at an end stands for any text.
    Sysctls(&'static [&'static str]),
    /// Something else that the plan sets on systems of its own.
    System(fn(&Plan) -> Option<Outcome>),
    /// Something else of any plan.
    Plan(fn(&Plan) -> Option<Outcome>),
}

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Arms are equal but for what the plan names.
    Arms,
    /// What was meant to be the limit was the limit.
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
            Self::Arms => "Arms are equal but for what the plan names",
            Self::Bottleneck => "The right bottleneck",
            Self::Work => "The work was done",
            Self::Measurement => "The measurement is sound",
        }
    }
}

/// How a check is answered.
#[derive(Debug, Clone, Copy)]
pub enum Judge {
    /// From the plan alone, before anything boots.
    Plan(fn(&Plan) -> Outcome),
    /// From what was recorded.
    Run(fn(&Subject<'_>) -> Outcome),
    /// All arms have the same of these facts.
    Equal(&'static [Fact], Cause),
    /// The same of facts that servers have: of workloads without a server nothing is asked.
    OfServers(&'static [Fact]),
    /// From the plan before anything boots, and from what was recorded afterwards.
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
    /// Whether the plan answers it before anything boots.
    pub fn is_of_plan(&self) -> bool {
        matches!(self.judge, Judge::Plan(_) | Judge::PlanThenRun(..))
    }
}

/// What is to be said before anything boots: all that checks of the plan find, and what those of a run will find amiss as far as
/// the plan tells. What it does not tell is not in the list.
pub fn of_plan(plan: &Plan) -> Vec<CheckResult> {
    let answered = ALL.iter().filter_map(|check| match check.judge {
        Judge::Plan(judge) | Judge::PlanThenRun(judge, _) => Some(result(check, judge(plan))),
        Judge::Run(_) | Judge::Equal(..) | Judge::OfServers(_) => {
            Some(result(check, foreseen::foresee(plan, check)?))
        }
    });
    answered.collect()
}

/// What all checks find of a run; `accepted` are violations that the user has named, with his reasons.
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

/// Findings with those violations declared that the user has accepted.
pub fn accept(findings: Vec<CheckResult>, accepted: &BTreeMap<String, String>) -> Vec<CheckResult> {
    let declared = |mut one: CheckResult| {
        if let (Outcome::Violation { details }, Some(reason)) =
            (&mut one.outcome, accepted.get(&one.id))
        {
            one.outcome = Outcome::Declared {
                by: Declaration::Accepted(reason.clone()),
                details: std::mem::take(details),
            };
        }
        one
    };
    findings.into_iter().map(declared).collect()
}

/// A reason that was accepted and stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vain {
    /// No check is named so: of another version, or written by hand.
    Unknown {
        /// The name.
        id: String,
    },
    /// The check is not violated.
    NotViolated {
        /// The check.
        id: String,
        /// What it found.
        outcome: &'static str,
    },
}

impl Vain {
    /// The check that was named.
    pub fn id(&self) -> &str {
        match self {
            Self::Unknown { id } | Self::NotViolated { id, .. } => id,
        }
    }
}

/// What was accepted in vain. A check without an answer may still be violated, so it is none of them.
pub fn in_vain(accepted: &BTreeMap<String, String>, findings: &[CheckResult]) -> Vec<Vain> {
    let vain = |id: &String| {
        let id = id.clone();
        let Some(check) = find(&id) else {
            return Some(Vain::Unknown { id });
        };
        let mut findings = findings.iter();
        let found = findings.find(|one| one.id == check.id)?;
        match &found.outcome {
            Outcome::Violation { .. }
            | Outcome::NotKnown { .. }
            | Outcome::Declared {
                by: Declaration::Accepted(_),
                ..
            } => None,
            Outcome::Pass | Outcome::NotApplicable | Outcome::Declared { .. } => {
                let outcome = found.outcome.word();
                Some(Vain::NotViolated { id, outcome })
            }
        }
    };
    accepted.keys().filter_map(vain).collect()
}

/// The check of a name.
pub fn find(id: &str) -> Option<&'static Check> {
    ALL.iter().find(|check| check.id == id).copied()
}

/// Whether the plan alone answers a check, so that no later trial can change the answer.
pub fn is_of_plan(id: &str) -> bool {
    find(id).is_some_and(|check| matches!(check.judge, Judge::Plan(_)))
}

fn result(check: &Check, outcome: Outcome) -> CheckResult {
    CheckResult {
        id: check.id.into(),
        outcome,
    }
}
