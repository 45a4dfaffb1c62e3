//! A run as the checks see it.

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

/// A run and its judgement.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'s> {
    /// The run.
    pub run: &'s Run,
    /// The judgement, without fairness results.
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

/// The prefix of the fact that each service has.
const SERVICE: &str = "command:";

/// What a plan may vary between arms.
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
        (Factor::Kernel, differs(|a, b| a.kernel != b.kernel)),
        (Factor::CommandLine, differs(|a, b| a.cmdline != b.cmdline)),
        (Factor::Sysctl, differs(|a, b| a.sysctl != b.sysctl)),
        (Factor::Cpus, differs(|a, b| a.cpus != b.cpus)),
        (Factor::Tuning, differs(|a, b| a.tuning != b.tuning)),
    ];
    let found = factors.into_iter().filter(|(_, differs)| *differs);
    found.map(|(factor, _)| factor).collect()
}

/// Whether arms differ in this only, so that the plan asks about it.
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

    /// The compared arms: those with a measured trial, or all if fewer than two have one.
    pub(crate) fn arms(&self) -> impl Iterator<Item = &'s str> {
        let measured: BTreeSet<_> = self.measured().map(|(_, arm, _)| arm).collect();
        let all = self.run.plan.arms.iter().map(|arm| arm.name.as_str());
        all.filter(move |arm| measured.len() < 2 || measured.contains(arm))
    }

    /// The measured workloads, each once.
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

    /// Whether all facts of an arm on a workload report something, and there are some. Lost files are left to the check `evidence`.
    /// An arm that was measured only on other workloads is not compared on this one.
    pub(crate) fn arm_reports(
        &self,
        workload: &str,
        arm: &str,
        reports: impl Fn(&Facts) -> bool,
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
        facts.peek().is_some() && facts.all(reports)
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

    /// Whether the facts would list services if there were any.
    pub(crate) fn reports_services(&self) -> bool {
        let has_values = |facts: &Facts| !facts.values.is_empty();
        self.arms().all(|arm| {
            let mut of_arm = self.trials().filter(|trial| trial.arm == arm);
            of_arm.any(|trial| trial.facts.is_some_and(has_values))
        })
    }

    /// The values of a fact by arm, the most frequent first; and the arms with a trial that does not report it.
    pub(crate) fn by_arm(
        &self,
        value_of: impl Fn(&'s Facts) -> Option<&'s str>,
    ) -> (BTreeMap<&'s str, Vec<Seen>>, Vec<&'s str>) {
        let mut values = BTreeMap::new();
        let mut silent = Vec::new();
        for arm in self.arms() {
            let of_arm = self.trials().filter(|trial| trial.arm == arm);
            let by_trial: Vec<_> = of_arm
                .filter_map(|trial| Some((trial.number, value_of(trial.facts?))))
                .collect();
            if by_trial.is_empty() || by_trial.iter().any(|(_, value)| value.is_none()) {
                silent.push(arm);
            }
            let reported = by_trial.into_iter().filter(|(_, value)| value.is_some());
            let reported = reported.map(|(trial, value)| (trial, value.map(String::from)));
            values.insert(arm, Seen::of(reported));
        }
        (values, silent)
    }

    /// Differences in facts of these names; see `is_named`.
    pub(crate) fn differences(&self, names: &[&str]) -> impl Iterator<Item = &'s Difference> {
        let differences = self.judgement.differences.iter();
        differences.filter(|difference| names.iter().any(|name| is_named(&difference.fact, name)))
    }

    /// Failed if a finding has this quantity beyond its limit, else as `unless_found`.
    pub(crate) fn unless_beyond(&self, watched: Quantity) -> Outcome {
        self.unless_found(|finding| match finding.kind {
            Kind::Beyond {
                quantity,
                value,
                limit,
            } if quantity == watched => Some(beyond(
                &finding.workload,
                &finding.arm,
                quantity,
                value,
                limit,
            )),
            _ => None,
        })
    }

    /// Failed if findings give details; passed if they give none and all arms were measured.
    pub(crate) fn unless_found(&self, detail: impl Fn(&Finding) -> Option<Detail>) -> Outcome {
        let details: Vec<Detail> = self.judgement.findings.iter().filter_map(detail).collect();
        if details.is_empty() && !self.all_are_measured() {
            return unknown(Missing::Trial);
        }
        unless(details)
    }

    /// Whether there are arms to compare, each with a measured trial.
    pub(crate) fn all_are_measured(&self) -> bool {
        let mut arms = self.arms();
        arms.all(|arm| self.measured().any(|(_, measured, _)| measured == arm))
    }
}

/// Arms whose headline names this limit.
pub(crate) fn limited(subject: &Subject<'_>, limit: Limit) -> Vec<Detail> {
    let mut details = Vec::new();
    for headline in &subject.judgement.headlines {
        for limited in headline
            .limits
            .iter()
            .filter(|limited| limited.limit == limit)
        {
            let detail = Detail::Limited {
                workload: headline.workload.clone(),
                arm: limited.arm.clone(),
                limit,
            };
            if !details.contains(&detail) {
                details.push(detail);
            }
        }
    }
    details
}

/// Whether the limit of every arm is known.
pub(crate) fn limits_are_known(subject: &Subject<'_>) -> bool {
    let summaries = &subject.judgement.arm_summaries;
    let is_known = |summary: &ArmSummary| {
        let limit = summary.limit.as_ref();
        limit.is_some_and(|limit| limit.limit.is_some())
    };
    !summaries.is_empty() && summaries.iter().all(is_known)
}

/// Failed if a quantity of the systems under test is beyond its limit; unknown for systems on the network.
pub(crate) fn of_system(subject: &Subject<'_>, quantity: Quantity) -> Outcome {
    if is_of_network(&subject.run.plan) {
        return unknown(Missing::SystemOnNetwork);
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

/// Failed if there are details, else passed.
pub(crate) fn unless(details: Vec<Detail>) -> Outcome {
    if details.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed { details }
    }
}

/// Unknown because this is missing.
pub(crate) fn unknown(missing: Missing) -> Outcome {
    Outcome::Unknown {
        missing: vec![missing],
    }
}

/// Unknown because a fact is missing.
pub(crate) fn without(fact: &str) -> Outcome {
    unknown(Missing::Fact { fact: fact.into() })
}

/// Whether arms have at least `least` of something for each connection of their clients, in each trial. Workloads without clients or
/// a server are left out.
pub(crate) fn for_each_connection(
    subject: &Subject<'_>,
    quantity: Quantity,
    least: f64,
    fact: &str,
    amount: impl Fn(&Facts) -> Option<f64>,
) -> Outcome {
    let mut details = Vec::new();
    let mut is_reported = BTreeMap::<&str, bool>::new();
    for trial in subject.trials() {
        let Some(load) = &trial.measurement.load else {
            continue;
        };
        let is_reported_by_arm = is_reported.entry(trial.arm).or_insert(true);
        let Some(amount) = trial.facts.and_then(&amount) else {
            *is_reported_by_arm = false;
            continue;
        };
        let each = amount / load.connections_asked.max(1) as f64;
        let detail = beyond(trial.workload, trial.arm, quantity, each, least);
        if each < least && !details.contains(&detail) {
            details.push(detail);
        }
    }
    let silent = is_reported.iter().filter(|(_, reported)| !**reported);
    let silent: Vec<&str> = silent.map(|(arm, _)| *arm).collect();
    if is_reported.is_empty() {
        return Outcome::NotApplicable;
    }
    if details.is_empty() && !subject.all_are_measured() {
        return unknown(Missing::Trial);
    }
    if details.is_empty() && !silent.is_empty() {
        return not_reported(subject, fact, &silent);
    }
    unless(details)
}

/// Unknown because these arms do not report a fact; if no arm does, the fact itself is missing.
pub(crate) fn not_reported(subject: &Subject<'_>, fact: &str, arms: &[&str]) -> Outcome {
    if arms.len() == subject.arms().count() {
        return without(fact);
    }
    let of_arm = |arm: &&str| Missing::OfArm {
        fact: fact.into(),
        arm: (*arm).into(),
    };
    Outcome::Unknown {
        missing: arms.iter().map(of_arm).collect(),
    }
}

/// A number beyond its limit.
pub(crate) fn beyond(
    workload: &str,
    arm: &str,
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
