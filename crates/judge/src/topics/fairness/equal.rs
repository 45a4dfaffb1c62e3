//! Checks that arms have the same facts.
//!
//! Nothing is said of a fact that not every arm tells: an arm whose list of sysctls is missing has the same ones as the others, or not; nobody
//! knows. What a complete list lacks is a difference like any other.

use std::collections::BTreeMap;

use plan::Mode;
use record::evidence::{Facts, Told};
use record::fact;
use record::verdict::Difference;
use record::verdict::fairness::{Declaration, Detail, Missing, Outcome, Unpinnable};
use record::verdict::weighed::{Class, Seen, Weight};

use crate::topics::fairness::checks;
use crate::topics::fairness::subject::{
    Subject, is_named, is_of_network, kernels_differ, not_known,
};

/// A fact that a check reads; a `*` stands for any text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// All kernels tell it.
    Must(&'static str),
    /// Some machines or kernels have none. Where one arm has it, all must.
    May(&'static str),
}

impl Fact {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Must(name) | Self::May(name) => name,
        }
    }
}

/// What may make a fact differ without anybody's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nothing but what the plan names.
    None,
    /// The kernel comes with it, so that arms of different kernels may have different ones.
    Kernel,
    /// Likewise, but kernels work some of it out from their memory.
    KernelOrMemory,
}

/// Whether all arms have the same values of these facts.
pub(crate) fn equal(subject: &Subject<'_>, facts: &[Fact], cause: Cause) -> Outcome {
    compare(subject, &subject.workloads(), facts, cause)
}

/// The same of servers' facts, on the workloads that have a server.
pub(crate) fn of_servers(subject: &Subject<'_>, facts: &[Fact]) -> Outcome {
    let workloads = subject.workloads();
    let has_server = |workload: &&str| subject.has_server(workload);
    let with: Vec<&str> = workloads.iter().copied().filter(has_server).collect();
    if with.is_empty() && !is_of_network(&subject.run.plan) && subject.tells_of_services() {
        return Outcome::NotApplicable;
    }
    let asked = if with.is_empty() { workloads } else { with };
    compare(subject, &asked, facts, Cause::None)
}

fn compare(subject: &Subject<'_>, workloads: &[&str], facts: &[Fact], cause: Cause) -> Outcome {
    let missing = missing(subject, workloads, facts);
    let is_told = |fact: &Fact| {
        let mut all = subject.trials().filter_map(|trial| trial.facts);
        all.any(|facts| has(facts, fact.name()))
    };
    // What a system on the network tells is told by few of its facts.
    if facts.iter().any(is_told) && is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    let names: Vec<&str> = facts.iter().map(|fact| fact.name()).collect();
    let told = subject.differences(&names);
    let silent = silent_arms(subject, &missing);
    let told =
        told.filter(|one| one.class != Class::Renamed && is_told_apart(one, &silent, &missing));
    let (differences, declared): (Vec<_>, Vec<_>) = told.partition(|one| one.counts());
    let outcome = match (differences.is_empty(), declared.is_empty()) {
        (false, _) => amiss(subject, &names, &differences, cause),
        (true, false) => Outcome::Declared {
            by: Declaration::Plan,
            details: all_details(&declared),
        },
        (true, true) => Outcome::Pass,
    };
    match outcome {
        Outcome::Violation { .. } => outcome,
        _ if !missing.is_empty() => Outcome::NotKnown { missing },
        _ => outcome,
    }
}

/// What becomes of differences that the plan does not name.
fn amiss(
    subject: &Subject<'_>,
    names: &[&str],
    differences: &[&Difference],
    cause: Cause,
) -> Outcome {
    // A kernel may bring another value, but not another one in each trial.
    let is_excused = cause != Cause::None && kernels_differ(&subject.run.plan);
    let is_flaw = |one: &&Difference| !is_excused || !one.varying.is_empty();
    let flaws: Vec<&Difference> = differences.iter().copied().filter(is_flaw).collect();
    if !flaws.is_empty() {
        let details = all_details(&flaws);
        return Outcome::Violation { details };
    }
    let by = match subject.run.plan.mode {
        None if cause == Cause::KernelOrMemory && !checks::has_like_memory(subject) => {
            Declaration::KernelOrMemory
        }
        None => Declaration::Kernel,
        Some(Mode::AsShipped) => Declaration::AsShipped,
        Some(Mode::Controlled) => return controlled(subject, names, differences),
    };
    let details = all_details(differences);
    Outcome::Declared { by, details }
}

/// What of these facts is not told, of which arm.
fn missing(subject: &Subject<'_>, workloads: &[&str], facts: &[Fact]) -> Vec<Missing> {
    if workloads.is_empty() {
        return facts.iter().map(|fact| of_all(fact.name())).collect();
    }
    let mut missing = Vec::new();
    for workload in workloads {
        for one in missing_on(subject, workload, facts) {
            if !missing.contains(&one) {
                missing.push(one);
            }
        }
    }
    missing
}

fn missing_on(subject: &Subject<'_>, workload: &str, facts: &[Fact]) -> Vec<Missing> {
    let arms: Vec<&str> = subject.arms().collect();
    let silent = |name: &str| -> Vec<&str> {
        let mut all = subject.trials().filter_map(|trial| trial.facts);
        // What no kernel has may be a name that nobody collected.
        if !all.any(|facts| has(facts, name)) {
            return arms.clone();
        }
        let is_silent = |arm: &&str| !subject.arm_tells(workload, arm, |facts| tells(facts, name));
        arms.iter().copied().filter(is_silent).collect()
    };
    let mut missing = Vec::new();
    let mut is_any_told = false;
    for fact in facts {
        let silent = silent(fact.name());
        is_any_told |= silent.len() < arms.len();
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
    if is_any_told {
        return missing;
    }
    facts.iter().map(|fact| of_all(fact.name())).collect()
}

fn of_all(fact: &str) -> Missing {
    Missing::Fact { fact: fact.into() }
}

/// Facts that no trial of an arm tells. Where one of them does, what differs stands, whatever the others lack.
fn silent_arms<'m>(
    subject: &Subject<'_>,
    missing: &'m [Missing],
) -> Vec<(&'m str, Option<&'m str>)> {
    let is_told_once = |arm: &str, fact: &str| {
        let of_arm = subject.trials().filter(|trial| trial.arm == arm);
        let mut facts = of_arm.filter_map(|trial| trial.facts);
        facts.any(|facts| tells(facts, fact))
    };
    let silent = missing.iter().filter_map(|lack| match lack {
        Missing::Fact { fact } => Some((&**fact, None)),
        Missing::OfArm { fact, arm } if !is_told_once(arm, fact) => Some((&**fact, Some(&**arm))),
        Missing::OfArm { .. }
        | Missing::File { .. }
        | Missing::Trial
        | Missing::Blocks { .. }
        | Missing::Precision
        | Missing::SystemOnNetwork => None,
    });
    silent.collect()
}

/// Whether a fact differs among the arms that tell it, or the trials of one that does.
fn is_told_apart(one: &Difference, silent: &[(&str, Option<&str>)], missing: &[Missing]) -> bool {
    let is_silent = |arm: &str| {
        silent
            .iter()
            .any(|(fact, of)| of.is_none_or(|of| of == arm) && is_named(&one.fact, fact))
    };
    let told = one.values.iter().filter(|(arm, _)| !is_silent(arm));
    let mut values = told.map(|(_, value)| value);
    let first = values.next();
    // A trial that does not tell a fact has no other value of it.
    let is_partly_silent = |own: &str| {
        missing.iter().any(|lack| {
            matches!(lack, Missing::OfArm { fact, arm } if arm == own && is_named(&one.fact, fact))
        })
    };
    let varies = |(arm, seen): (&String, &Vec<Seen>)| {
        let told = seen.iter().filter(|one| one.value.is_some()).count();
        !is_silent(arm) && (told > 1 || !is_partly_silent(arm))
    };
    values.any(|value| Some(value) != first) || one.varying.iter().any(varies)
}

/// Whether facts have a value of a fact.
fn has(facts: &Facts, name: &str) -> bool {
    if name.contains('*') {
        tells(facts, name)
    } else {
        matches!(facts.told(name), Told::Value(_))
    }
}

/// Whether facts say anything of a fact, if only that there is none. A directory that has any file is complete.
pub(crate) fn tells(facts: &Facts, name: &str) -> bool {
    if name.starts_with("boot log") {
        return !facts.boot_log.is_empty();
    }
    if !name.contains('*') {
        return match facts.told(name) {
            Told::Value(_) => true,
            // A file that could not be read is not a sysctl that a kernel does not have.
            Told::Absent => name.starts_with("sysctl ") || name.starts_with("CONFIG_"),
            Told::NotKnown => false,
        };
    }
    if let Some(sysctl) = name.strip_prefix("sysctl ") {
        return facts.sysctls.keys().any(|own| is_named(own, sysctl));
    }
    let list = if name.starts_with("CONFIG_") {
        &facts.kernel_config
    } else {
        &facts.values
    };
    list.keys().any(|own| is_named(own, name))
}

/// What could have been pinned and was not is a violation; what cannot is declared, by class.
fn controlled(subject: &Subject<'_>, names: &[&str], differences: &[&Difference]) -> Outcome {
    let settings = subject.judgement.weighed.settings.iter();
    let asked = settings.filter(|one| names.iter().any(|name| is_named(one.setting.fact(), name)));
    let in_effect = asked.filter_map(|one| {
        Some(Detail::Pinnable {
            fact: one.setting.word().into(),
            values: one.values.clone(),
            pin: one.pin.clone()?,
        })
    });
    let others = differences.iter().filter_map(|one| {
        Some(Detail::Pinnable {
            fact: one.fact.clone(),
            values: one.values.clone(),
            pin: one.pin.clone()?,
        })
    });
    let details: Vec<Detail> = in_effect.chain(others).collect();
    if !details.is_empty() {
        return Outcome::Violation { details };
    }
    Outcome::Declared {
        by: Declaration::NotPinnable,
        details: not_pinnable(differences),
    }
}

/// By class, those that cannot change figures left out; those that can do most first.
fn not_pinnable(differences: &[&Difference]) -> Vec<Detail> {
    let mut counts = BTreeMap::<(Class, Unpinnable), u32>::new();
    for one in differences {
        if one.class.weight() != Weight::None {
            *counts.entry((one.class, why_not(one))).or_default() += 1;
        }
    }
    let detail = |((class, why), facts)| Detail::NotPinnable { class, facts, why };
    counts.into_iter().map(detail).collect()
}

fn why_not(one: &Difference) -> Unpinnable {
    if one.fact.starts_with("CONFIG_") || one.fact == fact::KERNEL_VERSION {
        return Unpinnable::Built;
    }
    if one.values.values().all(Option::is_some) {
        return Unpinnable::Fixed;
    }
    Unpinnable::Missing
}

fn all_details(differences: &[&Difference]) -> Vec<Detail> {
    differences.iter().flat_map(|one| details(one)).collect()
}

/// What differs between arms, and between trials of one.
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
