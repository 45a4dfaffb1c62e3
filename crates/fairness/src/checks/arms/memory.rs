//! Do all arms have the same memory?

use std::collections::BTreeMap;

use record::verdict::fairness::{Declaration, Detail, Outcome};

use crate::subject::{Factor, Subject, is_the_question, without};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "memory",
    group: Group::Arms,
    question: "Do all arms have the same memory?",
    reads: "`MemTotal` of `/proc/meminfo`, the arms' command lines",
    passes: "the least is within 3 % of the most: kernels keep different amounts for themselves; declared where memory is all that arms differ in",
    why: "Mindcraft 1999: Linux was booted with 960 MB of 4 GB.",
    mend: "take `mem=` and `memmap=` out of the arm's `cmdline`",
    judge: Judge::Run(memory),
};

const FACT: &str = "/proc/meminfo:MemTotal";

/// Share by which arms may differ: newer kernels keep more for themselves.
const TOLERANCE: f64 = 0.03;

fn memory(subject: &Subject<'_>) -> Outcome {
    let told = subject.by_arm(|facts| facts.values.get(FACT).map(String::as_str));
    let arms = subject.run.plan.arms.len();
    let sizes: Vec<f64> = told.values().filter_map(|text| kilobytes(text)).collect();
    if sizes.len() < arms {
        return without(FACT);
    }
    let most = sizes.iter().copied().fold(0.0, f64::max);
    let least = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    if least >= most * (1.0 - TOLERANCE) {
        return Outcome::Pass;
    }
    let values: BTreeMap<_, _> = told
        .iter()
        .map(|(arm, text)| ((*arm).to_string(), Some((*text).to_string())))
        .collect();
    let details = vec![Detail::Differs {
        fact: FACT.into(),
        values,
    }];
    if is_the_question(&subject.run.plan, Factor::CommandLine) {
        let by = Declaration::Plan;
        return Outcome::Declared { by, details };
    }
    Outcome::Violation { details }
}

/// `984944 kB` as a number.
fn kilobytes(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn an_arm_with_less_memory_is_found() {
        let told = |old: &str, new: &str| {
            let run = two_arms("/proc/meminfo:MemTotal", [old, new]);
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(told("984944 kB", "980000 kB"), Outcome::Pass);
        assert!(is_violation(&told("984944 kB", "246000 kB")));
        assert!(is_unknown(&outcome(&super::CHECK, &whole().run())));
    }

    #[test]
    fn memory_may_be_the_question() {
        let run = two_arms("/proc/meminfo:MemTotal", ["984944 kB", "246000 kB"]).with(|run| {
            run.plan.arms[1].kernel = run.plan.arms[0].kernel.clone();
            run.plan.arms[1].cmdline = "mem=256M".into();
        });
        assert!(is_declared(&outcome(&super::CHECK, &run.run())));
    }
}
