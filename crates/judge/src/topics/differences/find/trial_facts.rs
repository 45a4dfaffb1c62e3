//! Values of facts by arm and trial.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use record::evidence::{FactLookup, Facts};
use record::fact;
use record::rundir::Run;
use record::trial::Outcome;

/// Lines of the boot log with one of these words are compared. All other lines differ between any two kernels.
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

/// Prefix of a fact that stands for a line of the boot log.
const LOGGED: &str = "boot log: ";

/// A fact's value by arm; `None` if the arm lacks it.
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

/// Facts of a workload's measured trials, by arm.
pub(crate) fn by_arm<'r>(run: &'r Run, workload: &str) -> BTreeMap<&'r str, ArmFacts<'r>> {
    let mut arms = BTreeMap::<&str, ArmFacts<'_>>::new();
    for (record, facts) in run.attempts.iter().zip(&run.facts) {
        let is_measured = matches!(record.outcome, Outcome::Measured(_));
        if let Some(facts) = facts
            && is_measured
            && record.trial.workload == workload
        {
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

/// Names of the facts of all trials.
pub(crate) fn names(arms: &BTreeMap<&str, ArmFacts<'_>>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for trial in arms.values().flat_map(|arm| &arm.0) {
        names.extend(trial.facts.values.keys().cloned());
        names.extend(trial.facts.kernel_config.keys().cloned());
        let sysctls = trial.facts.sysctls.keys();
        names.extend(sysctls.map(|name| format!("sysctl {name}")));
        names.extend(trial.log.iter().map(|line| format!("{LOGGED}{line}")));
    }
    names
}

impl ArmFacts<'_> {
    /// A fact's value by trial number, `None` if the trial's kernel lacks it. Trials in which it is unknown are left out.
    pub(crate) fn known_values(&self, fact: &str) -> Vec<(u32, Option<Cow<'_, str>>)> {
        let values = self.0.iter().filter_map(|trial| {
            let value = match fact.strip_prefix(LOGGED) {
                Some(_) if trial.facts.boot_log.is_empty() => return None,
                Some(line) => trial.log.contains(line).then_some("logged"),
                None => match trial.facts.look_up(fact) {
                    FactLookup::Value(value) => Some(value),
                    FactLookup::Absent => None,
                    FactLookup::NotKnown => return None,
                },
            };
            Some((
                trial.trial,
                value.map(|value| without_swap_use(fact, value)),
            ))
        });
        values.collect()
    }
}

/// Removes the amount of used swap, which is not a setting.
fn without_swap_use<'v>(fact: &str, value: &'v str) -> Cow<'v, str> {
    /// Column of `Filename Type Size Used Priority`.
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

/// Notable lines without numbers, because addresses and sizes vary.
fn notable(boot_log: &[String]) -> BTreeSet<String> {
    let is_notable = |line: &&String| {
        let line = line.to_lowercase();
        NOTABLE.iter().any(|word| line.contains(word))
    };
    boot_log
        .iter()
        .filter(is_notable)
        .map(|line| without_numbers(line))
        .collect()
}

/// Replaces each number by `#`.
fn without_numbers(line: &str) -> String {
    let mut masked = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            '0'..='9' if masked.ends_with('#') => {}
            '0'..='9' => masked.push('#'),
            other => masked.push(other),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_swap_is_ignored() {
        let swaps = |used: &str| {
            let value =
                format!("Filename Type Size Used Priority\n/dev/sda2 partition 1000 {used} -2");
            without_swap_use("/proc/swaps", &value).into_owned()
        };
        assert_eq!(swaps("0"), swaps("512"));
        assert!(swaps("0").ends_with("/dev/sda2 partition 1000 -2"));
    }
}
