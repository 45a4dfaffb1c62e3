//! All arms have the same memory, within 3 %.

use std::collections::BTreeMap;

use plan::{Arm, MachineKind, Plan};
use record::evidence::Facts;
use record::fact;
use record::verdict::fairness::{AcceptedBy, Detail, Outcome};
use record::verdict::weighed::Seen;

use crate::topics::fairness::foreseen::{by_plan, parameter, words};
use crate::topics::fairness::subject::{Factor, Subject, is_the_question, not_reported};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "memory",
    group: Group::Arms,
    must_hold: "All arms have the same memory, within 3 %. A difference is accepted if arms differ in nothing else.",
    why: "Mindcraft 1999: Linux booted with 960 MB of 4 GB.",
    mend: "Remove `mem=` and `memmap=` from the arm's `cmdline`.",
    reads: "`MemTotal` of `/proc/meminfo`, the arms' command lines",
    judge: Judge::Run(memory),
    foreseen: Foreseen::System(foresee),
};

const FACT: &str = fact::MEMORY_TOTAL;

/// Share by which arms may differ: newer kernels reserve more.
const TOLERANCE: f64 = 0.03;

fn memory(subject: &Subject<'_>) -> Outcome {
    let (by_arm, silent) = subject.by_arm(total);
    let all: Vec<f64> = by_arm.values().flat_map(|seen| sizes(seen)).collect();
    if !is_alike(&all) {
        let details = details(&by_arm);
        let is_steady = by_arm.values().all(|seen| is_alike(&sizes(seen)));
        if !is_steady || !is_the_question(&subject.run.plan, Factor::CommandLine) {
            return Outcome::Failed { details };
        }
        if silent.is_empty() {
            let by = AcceptedBy::Plan;
            return Outcome::Accepted { by, details };
        }
    }
    if silent.is_empty() {
        Outcome::Passed
    } else {
        not_reported(subject, FACT, &silent)
    }
}

/// Whether all arms that report their memory have the same.
pub(crate) fn has_like_memory(subject: &Subject<'_>) -> bool {
    let (by_arm, _) = subject.by_arm(total);
    let all: Vec<f64> = by_arm.values().flat_map(|seen| sizes(seen)).collect();
    is_alike(&all)
}

fn total(facts: &Facts) -> Option<&str> {
    facts.values.get(FACT).map(String::as_str)
}

/// Arms whose trials had different memory, and the memory of arms that differ.
fn details(by_arm: &BTreeMap<&str, Vec<Seen>>) -> Vec<Detail> {
    let varying = by_arm.iter().filter(|(_, seen)| !is_alike(&sizes(seen)));
    let varying = varying.map(|(arm, seen)| Detail::Varies {
        fact: FACT.into(),
        arm: (*arm).into(),
        values: seen.clone(),
    });
    let mut details: Vec<Detail> = varying.collect();
    let most = |seen: &Vec<Seen>| Some(seen.first()?.value.clone());
    let each = by_arm.iter();
    let values: BTreeMap<String, Option<String>> = each
        .filter_map(|(arm, seen)| Some(((*arm).into(), most(seen)?)))
        .collect();
    let of_most: Vec<f64> = values
        .values()
        .flatten()
        .filter_map(|text| kilobytes(text))
        .collect();
    if !is_alike(&of_most) {
        details.push(Detail::Differs {
            fact: FACT.into(),
            values,
        });
    }
    details
}

fn sizes(seen: &[Seen]) -> Vec<f64> {
    let values = seen.iter().filter_map(|seen| seen.value.as_deref());
    values.filter_map(kilobytes).collect()
}

/// Whether sizes of memory are within the limit.
fn is_alike(sizes: &[f64]) -> bool {
    let most = sizes.iter().copied().fold(0.0, f64::max);
    let least = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    least >= most * (1.0 - TOLERANCE)
}

/// `984944 kB` as a number.
fn kilobytes(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn foresee(plan: &Plan) -> Option<Outcome> {
    // Only a guest's memory is known before parameters reduce it.
    if plan.machine.kind != MachineKind::Qemu {
        return None;
    }
    let given = plan.machine.memory_bytes;
    let sizes: Vec<u64> = plan
        .arms
        .iter()
        .map(|arm| memory_left(arm, given))
        .collect();
    let alike: Vec<f64> = sizes.iter().map(|size| *size as f64).collect();
    if is_alike(&alike) {
        return None;
    }
    let shown = sizes.iter().map(|size| Some(format!("{} kB", size / 1024)));
    let arms = plan.arms.iter().map(|arm| arm.name.clone());
    let details = vec![Detail::Differs {
        fact: "memory of the guest".into(),
        values: arms.zip(shown).collect(),
    }];
    let is_question = is_the_question(plan, Factor::CommandLine);
    Some(if is_question {
        by_plan(details)
    } else {
        Outcome::Failed { details }
    })
}

/// What `mem=` and `memmap=SIZE$START` leave of a guest's memory.
fn memory_left(arm: &Arm, given: u64) -> u64 {
    let most = parameter(arm, "mem").and_then(size).unwrap_or(given);
    let taken = words(arm).filter_map(|word| word.strip_prefix("memmap="));
    let taken: u64 = taken.filter_map(|text| size(text.split_once('$')?.0)).sum();
    most.min(given).saturating_sub(taken)
}

/// A size as the kernel reads it: `256M`.
fn size(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn an_arm_with_less_memory_is_found() {
        let result = |old: &str, new: &str| {
            let run = two_arms("/proc/meminfo:MemTotal", [old, new]);
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(result("984944 kB", "980000 kB"), Outcome::Passed);
        assert!(is_failed(&result("984944 kB", "246000 kB")));
        assert!(is_unknown(&outcome(&super::CHECK, &whole().run())));
        let of_one_trial = two_arms("/proc/meminfo:MemTotal", ["984944 kB", "984944 kB"]);
        let of_one_trial =
            of_one_trial.observed(2, "7.2", facts("/proc/meminfo:MemTotal", "246000 kB"));
        assert!(is_failed(&outcome(&super::CHECK, &of_one_trial.run())));
    }

    #[test]
    fn memory_may_be_the_question() {
        let run = two_arms("/proc/meminfo:MemTotal", ["984944 kB", "246000 kB"]).with(|run| {
            run.plan.arms[1].kernel = run.plan.arms[0].kernel.clone();
            run.plan.arms[1].cmdline = "mem=256M".into();
        });
        assert!(is_accepted(&outcome(&super::CHECK, &run.run())));
    }
}
