//! What the facts of each trial tell.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use record::evidence::{Facts, Told};
use record::fact;
use record::rundir::Run;
use record::trial::Outcome;

/// Words that make a line of the boot log worth comparing; the others differ between any two
/// kernels.
const NOTABLE: [&str; 8] = [
    "bug:",
    "deprecated",
    "disabled",
    "error",
    "fail",
    "unable",
    "vulnerable",
    "warning",
];

/// How a line of the boot log is called as a fact.
const LOGGED: &str = "boot log: ";

/// A fact's value for each arm.
pub(crate) type Values = BTreeMap<String, Option<String>>;

/// The facts of one arm's trials of one workload.
#[derive(Debug, Default)]
pub(crate) struct ArmFacts<'r>(Vec<TrialFacts<'r>>);

#[derive(Debug)]
struct TrialFacts<'r> {
    trial: u32,
    facts: &'r Facts,
    log: BTreeSet<String>,
}

/// Facts of a workload's measured trials.
pub(crate) fn by_arm<'r>(run: &'r Run, workload: &str) -> BTreeMap<&'r str, ArmFacts<'r>> {
    let mut arms = BTreeMap::<&str, ArmFacts<'_>>::new();
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let measured = matches!(record.outcome, Outcome::Measured(_));
        if let (true, true, Some(facts)) = (measured, record.trial.workload == workload, facts) {
            let arm = arms.entry(&record.trial.arm).or_default();
            arm.0.push(TrialFacts {
                trial: record.trial.number,
                facts,
                log: notable(&facts.boot_log),
            });
        }
    }
    arms
}

/// All facts that any trial tells.
pub(crate) fn names(arms: &BTreeMap<&str, ArmFacts<'_>>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for one in arms.values().flat_map(|arm| &arm.0) {
        let others = one
            .facts
            .values
            .keys()
            .chain(one.facts.kernel_config.keys());
        names.extend(others.cloned());
        let sysctls = one.facts.sysctls.keys();
        names.extend(sysctls.map(|name| format!("sysctl {name}")));
        names.extend(one.log.iter().map(|line| format!("{LOGGED}{line}")));
    }
    names
}

impl ArmFacts<'_> {
    /// Trials that tell a fact by its value, or that there is none.
    pub(crate) fn told(&self, fact: &str) -> Vec<(u32, Option<Cow<'_, str>>)> {
        let told = self.0.iter().filter_map(|one| {
            let value = match fact.strip_prefix(LOGGED) {
                Some(_) if one.facts.boot_log.is_empty() => return None,
                Some(line) => one.log.contains(line).then_some("logged"),
                None => match one.facts.told(fact) {
                    Told::Value(value) => Some(value),
                    Told::Absent => None,
                    Told::NotKnown => return None,
                },
            };
            Some((one.trial, value.map(|value| without_use(fact, value))))
        });
        told.collect()
    }
}

/// How much of swap is used is no setting.
fn without_use<'v>(fact: &str, value: &'v str) -> Cow<'v, str> {
    /// `Filename Type Size Used Priority`.
    const USED: usize = 3;
    if fact != fact::SWAPS {
        return value.into();
    }
    let line = |line: &str| {
        let cells = line.split_whitespace().enumerate();
        let kept = cells.filter(|(place, _)| *place != USED);
        kept.map(|(_, cell)| cell).collect::<Vec<_>>().join(" ")
    };
    value
        .lines()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
        .into()
}

/// The lines that matter, each once, with their numbers blotted out: addresses and sizes vary.
fn notable(boot_log: &[String]) -> BTreeSet<String> {
    let matters = |line: &&String| {
        let line = line.to_lowercase();
        NOTABLE.iter().any(|word| line.contains(word))
    };
    boot_log
        .iter()
        .filter(matters)
        .map(|line| blot(line))
        .collect()
}

fn blot(line: &str) -> String {
    let mut blotted = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '0'..='9' if blotted.ends_with('#') => {}
            '0'..='9' => blotted.push('#'),
            other => blotted.push(other),
        }
    }
    blotted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_that_is_used_is_the_same_swap() {
        let told = |used: &str| {
            let value =
                format!("Filename Type Size Used Priority\n/dev/sda2 partition 1000 {used} -2");
            without_use("/proc/swaps", &value).into_owned()
        };
        assert_eq!(told("0"), told("512"));
        assert!(told("0").ends_with("/dev/sda2 partition 1000 -2"));
    }
}
