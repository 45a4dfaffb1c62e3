//! A run as checks look at it.

use std::collections::{BTreeMap, BTreeSet};

use plan::kernel::KernelRef;
use plan::{Arm, MachineKind, Plan};
use record::evidence::Facts;
use record::rundir::Run;
use record::trial::{Measurement, Outcome as TrialOutcome};
use record::verdict::fairness::{Detail, Missing, Outcome, Quantity};
use record::verdict::finding::{Finding, Kind};
use record::verdict::limit::Limit;
use record::verdict::weighed::Seen;
use record::verdict::{ArmSummary, Difference, Judgement};

/// A run and what was judged of it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'s> {
    /// The run.
    pub run: &'s Run,
    /// What was judged; its findings are not there yet.
    pub judgement: &'s Judgement,
}

/// A measured trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialFacts<'s> {
    pub(crate) number: u32,
    pub(crate) workload: &'s str,
    pub(crate) arm: &'s str,
    pub(crate) measurement: &'s Measurement,
    pub(crate) facts: Option<&'s Facts>,
}

/// How the fact begins that each service has.
const SERVICE: &str = "command:";

/// What arms may differ in by the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Factor {
    Kernel,
    CommandLine,
    Sysctl,
    Cpus,
    Tuning,
}

/// What the arms of a plan differ in.
pub(crate) fn factors(plan: &Plan) -> BTreeSet<Factor> {
    let Some((first, others)) = plan.arms.split_first() else {
        return BTreeSet::new();
    };
    let differs =
        |differs: fn(&Arm, &Arm) -> bool| others.iter().any(|other| differs(first, other));
    let factors = [
        (
            Factor::Kernel,
            differs(|one, other| one.kernel != other.kernel),
        ),
        (
            Factor::CommandLine,
            differs(|one, other| one.cmdline != other.cmdline),
        ),
        (
            Factor::Sysctl,
            differs(|one, other| one.sysctl != other.sysctl),
        ),
        (Factor::Cpus, differs(|one, other| one.cpus != other.cpus)),
        (
            Factor::Tuning,
            differs(|one, other| one.tuning != other.tuning),
        ),
    ];
    let found = factors.into_iter().filter(|(_, differs)| *differs);
    found.map(|(factor, _)| factor).collect()
}

/// Whether this is all that arms differ in, so that it is what the plan asks about.
pub(crate) fn is_the_question(plan: &Plan, factor: Factor) -> bool {
    factors(plan) == BTreeSet::from([factor])
}

/// Whether arms name different kernels, or different systems on the network.
pub(crate) fn kernels_differ(plan: &Plan) -> bool {
    factors(plan).contains(&Factor::Kernel)
}

/// Whether arms are systems on the network.
pub(crate) fn is_of_network(plan: &Plan) -> bool {
    plan.machine.kind == MachineKind::Url
        || plan
            .arms
            .iter()
            .any(|arm| matches!(arm.kernel, KernelRef::Remote(_)))
}

impl<'s> Subject<'s> {
    /// All measured trials with arm and workload.
    pub(crate) fn measured(&self) -> impl Iterator<Item = (&'s str, &'s str, &'s Measurement)> {
        self.run
            .attempts
            .iter()
            .filter_map(|record| match &record.outcome {
                TrialOutcome::Measured(measurement) => Some((
                    record.trial.workload.as_str(),
                    record.trial.arm.as_str(),
                    &**measurement,
                )),
                TrialOutcome::Void(_) | TrialOutcome::Skipped(_) => None,
            })
    }

    /// The arms that are compared: those with a measured trial, or all of the plan where fewer than two have one.
    pub(crate) fn arms(&self) -> impl Iterator<Item = &'s str> {
        let measured: BTreeSet<_> = self.measured().map(|(_, arm, _)| arm).collect();
        let all = self.run.plan.arms.iter().map(|arm| arm.name.as_str());
        all.filter(move |arm| measured.len() < 2 || measured.contains(arm))
    }

    /// Workloads that were measured, each once.
    pub(crate) fn workloads(&self) -> Vec<&'s str> {
        let all: BTreeSet<_> = self.measured().map(|(workload, _, _)| workload).collect();
        all.into_iter().collect()
    }

    /// All measured trials with their facts.
    pub(crate) fn trials(&self) -> impl Iterator<Item = TrialFacts<'s>> {
        let records = self.run.attempts.iter().zip(&self.run.facts);
        records.filter_map(|(record, facts)| match &record.outcome {
            TrialOutcome::Measured(measurement) => Some(TrialFacts {
                number: record.trial.number,
                workload: &record.trial.workload,
                arm: &record.trial.arm,
                measurement,
                facts: facts.as_ref(),
            }),
            TrialOutcome::Void(_) | TrialOutcome::Skipped(_) => None,
        })
    }

    /// Whether all facts of an arm on a workload say something, and there are some. Files that are lost are told by a check of their
    /// own; an arm that was measured on other workloads alone is not compared on this one.
    pub(crate) fn arm_tells(
        &self,
        workload: &str,
        arm: &str,
        tells: impl Fn(&Facts) -> bool,
    ) -> bool {
        let of_arm: Vec<_> = self.trials().filter(|trial| trial.arm == arm).collect();
        let mut here = of_arm
            .iter()
            .filter(|trial| trial.workload == workload)
            .peekable();
        if here.peek().is_none() {
            return !of_arm.is_empty();
        }
        let mut facts = here.filter_map(|trial| trial.facts).peekable();
        facts.peek().is_some() && facts.all(tells)
    }

    /// Whether a workload has servers that bakeoff starts.
    pub(crate) fn has_server(&self, workload: &str) -> bool {
        let has_service = |facts: &Facts| facts.values.keys().any(|name| name.starts_with(SERVICE));
        let is_served = |trial: &TrialFacts<'_>| {
            !trial.measurement.server.is_empty() || trial.facts.is_some_and(has_service)
        };
        let mut here = self.trials().filter(|trial| trial.workload == workload);
        here.any(|trial| is_served(&trial))
    }

    /// Whether services would be told of if there were any.
    pub(crate) fn tells_of_services(&self) -> bool {
        let tells = |facts: &Facts| !facts.values.is_empty();
        self.arms().all(|arm| {
            let mut own = self.trials().filter(|trial| trial.arm == arm);
            own.any(|trial| trial.facts.is_some_and(tells))
        })
    }

    /// What each arm's trials tell, values of most trials first; and the arms of which some trial, or all, do not tell it.
    pub(crate) fn by_arm(
        &self,
        of: impl Fn(&'s Facts) -> Option<&'s str>,
    ) -> (BTreeMap<&'s str, Vec<Seen>>, Vec<&'s str>) {
        let mut values = BTreeMap::new();
        let mut silent = Vec::new();
        for arm in self.arms() {
            let own = self.trials().filter(|trial| trial.arm == arm);
            let own: Vec<_> = own
                .filter_map(|trial| Some((trial.number, of(trial.facts?))))
                .collect();
            if own.is_empty() || own.iter().any(|(_, value)| value.is_none()) {
                silent.push(arm);
            }
            let told = own.into_iter().filter(|(_, value)| value.is_some());
            let told = told.map(|(trial, value)| (trial, value.map(String::from)));
            values.insert(arm, Seen::of(told));
        }
        (values, silent)
    }

    /// Differences in facts of these names; see `is_named`.
    pub(crate) fn differences(&self, names: &[&str]) -> impl Iterator<Item = &'s Difference> {
        let differences = self.judgement.differences.iter();
        differences.filter(|one| names.iter().any(|name| is_named(&one.fact, name)))
    }

    /// A violation where a finding says that this quantity is beyond its limit, else as `unless_found`.
    pub(crate) fn unless_beyond(&self, watched: Quantity) -> Outcome {
        self.unless_found(|finding| match finding.kind {
            Kind::Beyond {
                quantity,
                value,
                limit,
            } if quantity == watched => {
                let place = (&*finding.workload, &*finding.arm);
                Some(beyond(place, quantity, value, limit))
            }
            _ => None,
        })
    }

    /// A violation where findings give details; a pass where they give none and all arms were measured.
    pub(crate) fn unless_found(&self, detail: impl Fn(&Finding) -> Option<Detail>) -> Outcome {
        let details: Vec<Detail> = self.judgement.findings.iter().filter_map(detail).collect();
        if details.is_empty() && !self.all_are_measured() {
            return not_known(Missing::Trial);
        }
        unless(details)
    }

    /// Whether there are arms to compare, each with a measured trial.
    pub(crate) fn all_are_measured(&self) -> bool {
        let mut arms = self.arms();
        arms.all(|arm| self.measured().any(|(_, own, _)| own == arm))
    }
}

/// Arms whose figures were set by this, where the verdict says so first.
pub(crate) fn limited(subject: &Subject<'_>, limit: Limit) -> Vec<Detail> {
    let mut details = Vec::new();
    for headline in &subject.judgement.headlines {
        for one in headline.limits.iter().filter(|one| one.limit == limit) {
            let detail = Detail::Limited {
                workload: headline.workload.clone(),
                arm: one.arm.clone(),
                limit,
            };
            if !details.contains(&detail) {
                details.push(detail);
            }
        }
    }
    details
}

/// Whether it is known what set the figures of all arms.
pub(crate) fn limits_are_known(subject: &Subject<'_>) -> bool {
    let summaries = &subject.judgement.arm_summaries;
    let is_known = |one: &ArmSummary| one.limit.as_ref().is_some_and(|own| own.limit.is_some());
    !summaries.is_empty() && summaries.iter().all(is_known)
}

/// A violation where a quantity of the systems under test is beyond its limit. Of systems on the network it is not known.
pub(crate) fn of_system(subject: &Subject<'_>, quantity: Quantity) -> Outcome {
    if is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    subject.unless_beyond(quantity)
}

/// Whether a fact has this name; a `*` stands for any text.
pub(crate) fn is_named(fact: &str, name: &str) -> bool {
    match name.split_once('*') {
        Some((begin, end)) => fact.starts_with(begin) && fact.ends_with(end),
        None => fact == name,
    }
}

/// A violation if there are details, else a pass.
pub(crate) fn unless(details: Vec<Detail>) -> Outcome {
    if details.is_empty() {
        Outcome::Pass
    } else {
        Outcome::Violation { details }
    }
}

/// Nothing is said because this is missing.
pub(crate) fn not_known(missing: Missing) -> Outcome {
    Outcome::NotKnown {
        missing: vec![missing],
    }
}

/// Nothing is said because a fact is missing.
pub(crate) fn without(fact: &str) -> Outcome {
    not_known(Missing::Fact { fact: fact.into() })
}

/// Whether arms have at least so much of something for each connection of their clients, in each trial. Workloads without clients or
/// without a server ask for nothing.
pub(crate) fn for_each_connection(
    subject: &Subject<'_>,
    (quantity, least): (Quantity, f64),
    fact: &str,
    amount: impl Fn(&Facts) -> Option<f64>,
) -> Outcome {
    let mut details = Vec::new();
    let mut told = BTreeMap::<&str, bool>::new();
    for trial in subject.trials() {
        let Some(load) = &trial.measurement.load else {
            continue;
        };
        let is_told = told.entry(trial.arm).or_insert(true);
        let Some(amount) = trial.facts.and_then(&amount) else {
            *is_told = false;
            continue;
        };
        let each = amount / load.connections_asked.max(1) as f64;
        let detail = beyond((trial.workload, trial.arm), quantity, each, least);
        if each < least && !details.contains(&detail) {
            details.push(detail);
        }
    }
    let silent = told.iter().filter(|(_, is_told)| !**is_told);
    let silent: Vec<&str> = silent.map(|(arm, _)| *arm).collect();
    if told.is_empty() {
        return Outcome::NotApplicable;
    }
    if details.is_empty() && !subject.all_are_measured() {
        return not_known(Missing::Trial);
    }
    if details.is_empty() && !silent.is_empty() {
        return not_told(subject, fact, &silent);
    }
    unless(details)
}

/// Nothing is said because these arms do not tell a fact; where none does, it is the fact that is missing.
pub(crate) fn not_told(subject: &Subject<'_>, fact: &str, arms: &[&str]) -> Outcome {
    if arms.len() == subject.arms().count() {
        return without(fact);
    }
    let of_arm = |arm: &&str| Missing::OfArm {
        fact: fact.into(),
        arm: (*arm).into(),
    };
    Outcome::NotKnown {
        missing: arms.iter().map(of_arm).collect(),
    }
}

/// A number beyond its limit.
pub(crate) fn beyond(
    (workload, arm): (&str, &str),
    quantity: Quantity,
    value: f64,
    limit: f64,
) -> Detail {
    Detail::Beyond {
        workload: workload.into(),
        arm: arm.into(),
        quantity,
        value,
        limit,
    }
}
