//! Checks that arms have the same facts.

use record::evidence::Facts;
use record::verdict::Difference;
use record::verdict::fairness::{Declaration, Detail, Missing, Outcome};

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
    let differences: Vec<_> = subject.differences(names).collect();
    if differences.is_empty() {
        return Outcome::Pass;
    }
    let details = differences.iter().map(|one| detail(one)).collect();
    if differences.iter().all(|one| one.declared) {
        let by = Declaration::Plan;
        return Outcome::Declared { by, details };
    }
    if cause == Cause::Kernel && kernels_differ(&subject.run.plan) {
        let by = Declaration::Kernel;
        return Outcome::Declared { by, details };
    }
    Outcome::Violation { details }
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
