//! Checks that arms have the same facts.
//!
//! If an arm does not report a fact, the result is unknown: an arm without a list of sysctls may have the same ones or not.
//! What a complete list lacks is a difference like any other.

use std::collections::BTreeMap;

use plan::Mode;
use record::evidence::{FactLookup, Facts};
use record::fact;
use record::verdict::Difference;
use record::verdict::fairness::{AcceptedBy, Detail, Missing, Outcome, Unpinnable};
use record::verdict::weighed::{Class, Seen, Weight};

use crate::topics::fairness::checks;
use crate::topics::fairness::subject::{Subject, is_named, is_of_network, kernels_differ, unknown};

/// A fact that a check reads; a `*` stands for any text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// All kernels report it.
    Must(&'static str),
    /// Some machines or kernels have none. If one arm has it, all must.
    May(&'static str),
}

impl Fact {
    /// The fact's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Must(name) | Self::May(name) => name,
        }
    }
}

/// What may make a fact differ without a setting of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nothing but what the plan names.
    None,
    /// The kernel comes with it, so that arms of different kernels may have different ones.
    Kernel,
    /// The kernel comes with it, and derives some of it from memory.
    KernelOrMemory,
}

/// Whether all arms have the same values of these facts.
pub(crate) fn equal(subject: &Subject<'_>, facts: &[Fact], cause: Cause) -> Outcome {
    compare(subject, &subject.workloads(), facts, cause)
}

/// The same for facts of servers, on the workloads that have a server.
pub(crate) fn of_servers(subject: &Subject<'_>, facts: &[Fact]) -> Outcome {
    let workloads = subject.workloads();
    let has_server = |workload: &&str| subject.has_server(workload);
    let with: Vec<&str> = workloads.iter().copied().filter(has_server).collect();
    if with.is_empty() && !is_of_network(&subject.run.plan) && subject.reports_services() {
        return Outcome::NotApplicable;
    }
    let asked = if with.is_empty() { workloads } else { with };
    compare(subject, &asked, facts, Cause::None)
}

fn compare(subject: &Subject<'_>, workloads: &[&str], facts: &[Fact], cause: Cause) -> Outcome {
    let missing = missing(subject, workloads, facts);
    let is_reported = |fact: &Fact| {
        let mut all = subject.trials().filter_map(|trial| trial.facts);
        all.any(|facts| has(facts, fact.name()))
    };
    // A system on the network reports few facts.
    if facts.iter().any(is_reported) && is_of_network(&subject.run.plan) {
        return unknown(Missing::SystemOnNetwork);
    }
    let names: Vec<&str> = facts.iter().map(|fact| fact.name()).collect();
    let silent = silent_arms(subject, &missing);
    let reported = subject.differences(&names).filter(|difference| {
        difference.class != Class::Renamed && differs_as_reported(difference, &silent, &missing)
    });
    let (differences, planned): (Vec<_>, Vec<_>) =
        reported.partition(|difference| difference.counts());
    let outcome = match (differences.is_empty(), planned.is_empty()) {
        (false, _) => unplanned(subject, &names, &differences, cause),
        (true, false) => Outcome::Accepted {
            by: AcceptedBy::Plan,
            details: all_details(&planned),
        },
        (true, true) => Outcome::Passed,
    };
    match outcome {
        Outcome::Failed { .. } => outcome,
        _ if !missing.is_empty() => Outcome::Unknown { missing },
        _ => outcome,
    }
}

/// The result for differences that the plan does not name.
fn unplanned(
    subject: &Subject<'_>,
    names: &[&str],
    differences: &[&Difference],
    cause: Cause,
) -> Outcome {
    // A kernel may come with another value, but not with another one in each trial.
    let is_excused = cause != Cause::None && kernels_differ(&subject.run.plan);
    let is_flaw = |difference: &&Difference| !is_excused || !difference.varying.is_empty();
    let flaws: Vec<&Difference> = differences.iter().copied().filter(is_flaw).collect();
    if !flaws.is_empty() {
        let details = all_details(&flaws);
        return Outcome::Failed { details };
    }
    let by = match subject.run.plan.mode {
        None if cause == Cause::KernelOrMemory && !checks::has_like_memory(subject) => {
            AcceptedBy::KernelOrMemory
        }
        None => AcceptedBy::Kernel,
        Some(Mode::AsShipped) => AcceptedBy::AsShipped,
        Some(Mode::Controlled) => return controlled(subject, names, differences),
    };
    let details = all_details(differences);
    Outcome::Accepted { by, details }
}

/// The facts that are missing, with the arm.
fn missing(subject: &Subject<'_>, workloads: &[&str], facts: &[Fact]) -> Vec<Missing> {
    if workloads.is_empty() {
        return facts.iter().map(|fact| of_all(fact.name())).collect();
    }
    let mut missing = Vec::new();
    for workload in workloads {
        for lack in missing_on(subject, workload, facts) {
            if !missing.contains(&lack) {
                missing.push(lack);
            }
        }
    }
    missing
}

fn missing_on(subject: &Subject<'_>, workload: &str, facts: &[Fact]) -> Vec<Missing> {
    let arms: Vec<&str> = subject.arms().collect();
    let silent = |name: &str| -> Vec<&str> {
        let mut all = subject.trials().filter_map(|trial| trial.facts);
        // If no kernel has the fact, perhaps nobody collected it.
        if !all.any(|facts| has(facts, name)) {
            return arms.clone();
        }
        let is_silent =
            |arm: &&str| !subject.arm_reports(workload, arm, |facts| reports(facts, name));
        arms.iter().copied().filter(is_silent).collect()
    };
    let mut missing = Vec::new();
    let mut is_any_reported = false;
    for fact in facts {
        let silent = silent(fact.name());
        is_any_reported |= silent.len() < arms.len();
        match fact {
            Fact::Must(name) if silent.len() == arms.len() => missing.push(of_all(name)),
            Fact::May(_) if silent.len() == arms.len() => {}
            Fact::Must(name) | Fact::May(name) => {
                missing.extend(silent.into_iter().map(|arm| Missing::OfArm {
                    fact: (*name).into(),
                    arm: arm.into(),
                }));
            }
        }
    }
    if is_any_reported {
        return missing;
    }
    facts.iter().map(|fact| of_all(fact.name())).collect()
}

fn of_all(fact: &str) -> Missing {
    Missing::Fact { fact: fact.into() }
}

/// Facts that no trial of an arm reports. If one trial does, its difference counts, whatever the others lack.
fn silent_arms<'m>(
    subject: &Subject<'_>,
    missing: &'m [Missing],
) -> Vec<(&'m str, Option<&'m str>)> {
    let is_reported_once = |arm: &str, fact: &str| {
        let of_arm = subject.trials().filter(|trial| trial.arm == arm);
        let mut facts = of_arm.filter_map(|trial| trial.facts);
        facts.any(|facts| reports(facts, fact))
    };
    let silent = missing.iter().filter_map(|lack| match lack {
        Missing::Fact { fact } => Some((&**fact, None)),
        Missing::OfArm { fact, arm } if !is_reported_once(arm, fact) => {
            Some((&**fact, Some(&**arm)))
        }
        Missing::OfArm { .. }
        | Missing::File { .. }
        | Missing::Trial
        | Missing::Blocks { .. }
        | Missing::Precision
        | Missing::SystemOnNetwork => None,
    });
    silent.collect()
}

/// Whether a fact differs among the arms that report it, or among the trials of such an arm.
fn differs_as_reported(
    difference: &Difference,
    silent: &[(&str, Option<&str>)],
    missing: &[Missing],
) -> bool {
    let is_silent = |arm: &str| {
        silent.iter().any(|(fact, silent_arm)| {
            silent_arm.is_none_or(|silent_arm| silent_arm == arm)
                && is_named(&difference.fact, fact)
        })
    };
    let reported = difference.values.iter().filter(|(arm, _)| !is_silent(arm));
    let mut values = reported.map(|(_, value)| value);
    let first = values.next();
    // A trial that does not report a fact has no other value of it.
    let is_partly_silent = |name: &str| {
        missing.iter().any(|lack| {
            matches!(lack, Missing::OfArm { fact, arm } if arm == name && is_named(&difference.fact, fact))
        })
    };
    let varies = |(arm, seen): (&String, &Vec<Seen>)| {
        let values = seen.iter().filter(|seen| seen.value.is_some()).count();
        !is_silent(arm) && (values > 1 || !is_partly_silent(arm))
    };
    values.any(|value| Some(value) != first) || difference.varying.iter().any(varies)
}

/// Whether facts have a value of a fact.
fn has(facts: &Facts, name: &str) -> bool {
    if name.contains('*') {
        reports(facts, name)
    } else {
        matches!(facts.look_up(name), FactLookup::Value(_))
    }
}

/// Whether facts report on a fact, if only that there is none. A directory with any file is complete.
pub(crate) fn reports(facts: &Facts, name: &str) -> bool {
    if name.starts_with("boot log") {
        return !facts.boot_log.is_empty();
    }
    if !name.contains('*') {
        return match facts.look_up(name) {
            FactLookup::Value(_) => true,
            // An unreadable file does not mean that the kernel lacks a sysctl.
            FactLookup::Absent => name.starts_with("sysctl ") || name.starts_with("CONFIG_"),
            FactLookup::NotKnown => false,
        };
    }
    if let Some(sysctl) = name.strip_prefix("sysctl ") {
        return facts.sysctls.keys().any(|key| is_named(key, sysctl));
    }
    let list = if name.starts_with("CONFIG_") {
        &facts.kernel_config
    } else {
        &facts.values
    };
    list.keys().any(|key| is_named(key, name))
}

/// Failed for what could have been pinned and was not; what cannot be pinned is accepted, by class.
fn controlled(subject: &Subject<'_>, names: &[&str], differences: &[&Difference]) -> Outcome {
    let settings = subject.judgement.weighed.settings.iter();
    let of_check = settings.filter(|effective| {
        let fact = effective.setting.fact();
        names.iter().any(|name| is_named(fact, name))
    });
    let in_effect = of_check.filter_map(|effective| {
        Some(Detail::Pinnable {
            fact: effective.setting.word().into(),
            values: effective.values.clone(),
            pin: effective.pin.clone()?,
        })
    });
    let others = differences.iter().filter_map(|difference| {
        Some(Detail::Pinnable {
            fact: difference.fact.clone(),
            values: difference.values.clone(),
            pin: difference.pin.clone()?,
        })
    });
    let details: Vec<Detail> = in_effect.chain(others).collect();
    if !details.is_empty() {
        return Outcome::Failed { details };
    }
    Outcome::Accepted {
        by: AcceptedBy::NotPinnable,
        details: not_pinnable(differences),
    }
}

/// By class, the most effective first; without those that cannot change figures.
fn not_pinnable(differences: &[&Difference]) -> Vec<Detail> {
    let mut counts = BTreeMap::<(Class, Unpinnable), u32>::new();
    for difference in differences {
        if difference.class.weight() != Weight::None {
            let key = (difference.class, why_not(difference));
            *counts.entry(key).or_default() += 1;
        }
    }
    let detail = |((class, why), facts)| Detail::NotPinnable { class, facts, why };
    counts.into_iter().map(detail).collect()
}

fn why_not(difference: &Difference) -> Unpinnable {
    if difference.fact.starts_with("CONFIG_") || difference.fact == fact::KERNEL_VERSION {
        return Unpinnable::Built;
    }
    if difference.values.values().all(Option::is_some) {
        return Unpinnable::Fixed;
    }
    Unpinnable::Missing
}

fn all_details(differences: &[&Difference]) -> Vec<Detail> {
    differences
        .iter()
        .flat_map(|difference| details(difference))
        .collect()
}

/// What differs between arms, and between trials of an arm.
fn details(difference: &Difference) -> Vec<Detail> {
    let varies = difference
        .varying
        .iter()
        .map(|(arm, values)| Detail::Varies {
            fact: difference.fact.clone(),
            arm: arm.clone(),
            values: values.clone(),
        });
    let mut details: Vec<Detail> = varies.collect();
    let mut values = difference.values.values();
    let first = values.next();
    if values.any(|value| Some(value) != first) {
        details.push(Detail::Differs {
            fact: difference.fact.clone(),
            values: difference.values.clone(),
        });
    }
    details
}
