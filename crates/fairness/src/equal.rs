//! Checks that arms have the same facts.

use std::collections::BTreeMap;

use plan::Mode;
use record::evidence::Facts;
use record::verdict::Difference;
use record::verdict::fairness::{Declaration, Detail, Missing, Outcome, Unpinnable};
use record::verdict::weighed::{Class, Weight};

use crate::subject::{Subject, is_named, is_of_network, kernels_differ, not_known};

/// What may make a fact differ without anybody's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing but what the plan names.
    None,
    /// The kernel comes with it, so that arms of different kernels may have different ones.
    Kernel,
}

/// Whether all arms have the same values of these facts.
pub(crate) fn equal(subject: &Subject<'_>, names: &[&str], cause: Cause) -> Outcome {
    let has = |facts: &Facts| names.iter().any(|name| has(facts, name));
    let measured = subject.measured().count();
    if measured == 0 || subject.facts().filter(|(_, _, facts)| has(facts)).count() == 0 {
        return Outcome::NotKnown {
            missing: names
                .iter()
                .map(|name| Missing::Fact {
                    fact: (*name).into(),
                })
                .collect(),
        };
    }
    // What a system on the network tells is told by few of its facts.
    if is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    // An option of another name is the same option.
    let is_real = |one: &&Difference| one.class != Class::Renamed;
    let differences: Vec<_> = subject.differences(names).filter(is_real).collect();
    if differences.is_empty() {
        return Outcome::Pass;
    }
    let details = differences.iter().map(|one| detail(one)).collect();
    if differences.iter().all(|one| one.declared) {
        let by = Declaration::Plan;
        return Outcome::Declared { by, details };
    }
    if cause == Cause::None || !kernels_differ(&subject.run.plan) {
        return Outcome::Violation { details };
    }
    match subject.run.plan.mode {
        None => Outcome::Declared {
            by: Declaration::Kernel,
            details,
        },
        Some(Mode::AsShipped) => Outcome::Declared {
            by: Declaration::AsShipped,
            details,
        },
        Some(Mode::Controlled) => controlled(subject, names, &differences),
    }
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
    for one in differences.iter().filter(|one| !one.declared) {
        if one.class.weight() != Weight::None {
            *counts.entry((one.class, why_not(one))).or_default() += 1;
        }
    }
    let detail = |((class, why), facts)| Detail::NotPinnable { class, facts, why };
    counts.into_iter().map(detail).collect()
}

fn why_not(one: &Difference) -> Unpinnable {
    if one.fact.starts_with("CONFIG_") || one.fact == "/proc/version" {
        return Unpinnable::Built;
    }
    if one.values.values().all(Option::is_some) {
        return Unpinnable::Fixed;
    }
    Unpinnable::Missing
}

fn has(facts: &Facts, name: &str) -> bool {
    if let Some(sysctl) = name.strip_prefix("sysctl ") {
        return facts.sysctls.keys().any(|own| is_named(own, sysctl));
    }
    if name.starts_with("CONFIG_") {
        return facts.kernel_config.keys().any(|own| is_named(own, name));
    }
    if name.starts_with("boot log") {
        return !facts.boot_log.is_empty();
    }
    facts.values.keys().any(|own| is_named(own, name))
}

fn detail(difference: &Difference) -> Detail {
    Detail::Differs {
        fact: difference.fact.clone(),
        values: difference.values.clone(),
    }
}
