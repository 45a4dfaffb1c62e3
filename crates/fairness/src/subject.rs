//! A run as checks look at it.

use std::collections::{BTreeMap, BTreeSet};

use plan::kernel::KernelRef;
use plan::{Arm, MachineKind, Plan};
use record::evidence::Facts;
use record::rundir::Run;
use record::trial::{Measurement, Outcome as TrialOutcome};
use record::verdict::fairness::{Detail, Missing, Outcome, Quantity};
use record::verdict::limit::Limit;
use record::verdict::warning::{CpuState, Warning};
use record::verdict::{ArmSummary, Difference, Judgement};

/// A run and what was judged of it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'s> {
    /// The run.
    pub run: &'s Run,
    /// What was judged; its findings are not there yet.
    pub judgement: &'s Judgement,
}

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

    /// Facts of all measured trials with the trial's workload and arm.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (&'s str, &'s str, &'s Facts)> {
        let records = self.run.attempts.iter().zip(&self.run.facts);
        records.filter_map(|(record, facts)| {
            let trial = &record.trial;
            Some((trial.workload.as_str(), trial.arm.as_str(), facts.as_ref()?))
        })
    }

    /// A fact of each arm, of the first trial that has it.
    pub(crate) fn by_arm(
        &self,
        of: impl Fn(&'s Facts) -> Option<&'s str>,
    ) -> BTreeMap<&'s str, &'s str> {
        let mut values = BTreeMap::new();
        for (_, arm, facts) in self.facts() {
            if let Some(value) = of(facts) {
                values.entry(arm).or_insert(value);
            }
        }
        values
    }

    /// Differences in facts of these names; see `is_named`.
    pub(crate) fn differences(&self, names: &[&str]) -> impl Iterator<Item = &'s Difference> {
        let differences = self.judgement.differences.iter();
        differences.filter(|one| names.iter().any(|name| is_named(&one.fact, name)))
    }

    /// Violations that warnings tell; a pass if there are none and any trial was measured.
    pub(crate) fn unless_warned(&self, detail: impl Fn(&Warning) -> Option<Detail>) -> Outcome {
        if self.measured().next().is_none() {
            return not_known(Missing::Trial);
        }
        unless(self.judgement.warnings.iter().filter_map(detail).collect())
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

/// A violation where warnings tell of CPU time in a state beyond its limit. What is seen beside systems on the network is the
/// clients' host.
pub(crate) fn unused_cpu(
    subject: &Subject<'_>,
    state: CpuState,
    quantity: Quantity,
    limit: f64,
) -> Outcome {
    if is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    subject.unless_warned(|warning| match warning {
        Warning::UnusedCpu {
            workload,
            arm,
            state: own,
            share,
        } if *own == state => Some(beyond((workload, arm), quantity, *share, limit)),
        _ => None,
    })
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
