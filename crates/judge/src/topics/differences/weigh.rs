//! Weighs the differences between arms: the class of each difference, the settings in effect, and what can be pinned.
//!
//! ```text
//! renamed    options that have another name in later kernels
//! modules    options whose code no trial had in memory
//! classes    the class of a fact
//! settings   settings in effect, from the boot log, the command line or the configuration
//! pins       parameters and sysctls that give all arms one value
//! ```

use std::collections::BTreeMap;

use record::evidence::Facts;
use record::rundir::Run;
use record::trial::Outcome;
use record::verdict::Difference;
use record::verdict::weighed::{Class, ClassCount, Weighed};

use self::modules::Loaded;
use self::renamed::RENAMED;

mod classes;
mod modules;
mod pins;
mod renamed;
mod settings;

/// Sets the class and the pin of each difference, and summarises them.
pub(crate) fn weigh(run: &Run, differences: &mut Vec<Difference>) -> Weighed {
    let arms = first_facts(run);
    let trials = all_facts(run);
    join_renamed(differences);
    let loaded = Loaded::of(measured_facts(run).map(|(_, _, facts)| facts));
    for difference in differences.iter_mut() {
        difference.class = class(difference, loaded.as_ref(), &arms);
        difference.pin = pins::of_sysctl(run, difference);
    }
    Weighed {
        arms: run.plan.arms.iter().map(|arm| arm.name.clone()).collect(),
        settings: settings::of(run, &trials, differences),
        classes: count(differences),
    }
}

/// Facts of measured trials: `(arm, trial's number, facts)`.
fn measured_facts(run: &Run) -> impl Iterator<Item = (&str, u32, &Facts)> {
    let records = run.attempts.iter().zip(&run.facts);
    records.filter_map(|(record, facts)| {
        let is_measured = matches!(record.outcome, Outcome::Measured(_));
        let facts = facts.as_ref().filter(|_| is_measured)?;
        Some((record.trial.arm.as_str(), record.trial.number, facts))
    })
}

/// For each arm, the facts of its first measured trial that has the kernel's configuration.
fn first_facts(run: &Run) -> BTreeMap<&str, &Facts> {
    let mut first = BTreeMap::new();
    for (arm, _, facts) in measured_facts(run) {
        if !facts.kernel_config.is_empty() {
            first.entry(arm).or_insert(facts);
        }
    }
    first
}

/// Facts of each arm's measured trials, each with the trial's number.
fn all_facts(run: &Run) -> BTreeMap<&str, Vec<(u32, &Facts)>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for (arm, trial, facts) in measured_facts(run) {
        all.entry(arm).or_default().push((trial, facts));
    }
    all
}

/// Joins the two differences of an option that was renamed, unless some arm has both names.
fn join_renamed(differences: &mut Vec<Difference>) {
    for (before, after) in RENAMED {
        let place = |name: &str| {
            let fact = format!("CONFIG_{name}");
            differences
                .iter()
                .position(|difference| difference.fact == fact)
        };
        let (Some(old), Some(new)) = (place(before), place(after)) else {
            continue;
        };
        let values = differences[old].values.clone();
        let has_both = differences[new]
            .values
            .iter()
            .any(|(arm, value)| value.is_some() && values.get(arm).is_some_and(Option::is_some));
        if has_both {
            continue;
        }
        let joined = &mut differences[new];
        for (arm, value) in values {
            let joined_value = joined.values.entry(arm).or_default();
            *joined_value = joined_value.take().or(value);
        }
        joined.formerly = Some(format!("CONFIG_{before}"));
        differences.remove(old);
    }
}

fn class(difference: &Difference, loaded: Option<&Loaded>, arms: &BTreeMap<&str, &Facts>) -> Class {
    let fact = &difference.fact;
    let is_option = fact.starts_with("CONFIG_");
    let mut values = difference.values.values();
    let first = values.next();
    if difference.varying.is_empty() && values.all(|value| Some(value) == first) {
        return Class::Renamed;
    }
    let is_off = |value: &Option<String>| value.as_deref().is_none_or(|value| value == "n");
    if is_option && difference.values.values().all(is_off) {
        return Class::Absent;
    }
    if is_option && loaded.is_some_and(|loaded| loaded.leaves_out(fact, arms)) {
        return Class::NotLoaded;
    }
    classes::of(fact).unwrap_or_default()
}

/// Counts the differences of each class that the plan does not declare.
fn count(differences: &[Difference]) -> Vec<ClassCount> {
    let mut counts = BTreeMap::<Class, ClassCount>::new();
    for Difference { fact, class, .. } in differences.iter().filter(|each| !each.declared) {
        let count = counts.entry(*class).or_insert_with(|| ClassCount {
            class: *class,
            weight: class.weight(),
            options: 0,
            sysctls: 0,
            others: 0,
        });
        if fact.starts_with("CONFIG_") {
            count.options += 1;
        } else if fact.starts_with("sysctl ") {
            count.sysctls += 1;
        } else {
            count.others += 1;
        }
    }
    counts.into_values().collect()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use record::fixtures::builder::RunBuilder;

    fn facts(config: &[(&str, &str)]) -> Facts {
        let pairs = config.iter();
        let pairs = pairs.map(|(name, value)| (format!("CONFIG_{name}"), (*value).into()));
        let modules = ("/proc/modules".to_string(), "veth".to_string());
        Facts {
            kernel_config: pairs.collect(),
            values: [modules].into(),
            ..Facts::default()
        }
    }

    fn check(old: &[(&str, &str)], new: &[(&str, &str)], want: &Expect) {
        let run = RunBuilder::new().observed_pair(1, [facts(old), facts(new)]);
        let judgement = crate::judge(&run.run());
        let line = |difference: &Difference| {
            let values: Vec<&str> = difference
                .values
                .values()
                .map(|value| value.as_deref().unwrap_or("-"))
                .collect();
            let formerly = difference.formerly.as_deref().unwrap_or_default();
            let Difference { class, fact, .. } = difference;
            format!("{class:?} {fact} {} {formerly}", values.join(" "))
        };
        let lines: Vec<String> = judgement.differences.iter().map(line).collect();
        want.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn renamed_absent_and_unloaded_options_have_their_classes() {
        check(
            &[
                ("RETPOLINE", "y"),
                ("SLS", "n"),
                ("HID", "m"),
                ("DNET", "n"),
                ("HZ", "250"),
                ("VETH", "m"),
                ("QUITE_NEW", "1"),
            ],
            &[
                ("MITIGATION_RETPOLINE", "y"),
                ("MITIGATION_SLS", "y"),
                ("HZ", "1000"),
                ("VETH", "y"),
            ],
            &expect![[r#"
                Absent CONFIG_DNET n - 
                NotLoaded CONFIG_HID m - 
                Tick CONFIG_HZ 250 1000 
                Renamed CONFIG_MITIGATION_RETPOLINE y y CONFIG_RETPOLINE
                Mitigations CONFIG_MITIGATION_SLS n y CONFIG_SLS
                Unclassified CONFIG_QUITE_NEW 1 - 
                Network CONFIG_VETH m y "#]],
        );
    }
}
