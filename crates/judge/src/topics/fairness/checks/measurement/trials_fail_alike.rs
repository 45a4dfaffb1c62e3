//! No arm has more failed attempts than chance explains.

use std::collections::BTreeMap;

use record::trial::Outcome as TrialOutcome;
use record::verdict::fairness::{Missing, Outcome, Quantity};

use crate::topics::fairness::subject::{Subject, beyond, unknown, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "trials-fail-alike",
    group: Group::Measurement,
    must_hold: "No arm has more failed attempts than chance explains.",
    why: "Failed trials are often slow ones. An arm without them looks better than it is.",
    mend: "Read in the report why they failed.",
    reads: "discarded trials by arm",
    judge: Judge::Run(trials_fail_alike),
    foreseen: Foreseen::Nothing,
};

/// Below this probability, an uneven split is not chance.
const CHANCE: f64 = 0.05;

/// Attempts of an arm on a workload: failed ones, and all.
type Attempts = (u32, u32);

fn trials_fail_alike(subject: &Subject<'_>) -> Outcome {
    let mut counts = BTreeMap::<(&str, &str), Attempts>::new();
    for record in &subject.run.attempts {
        let place = (&*record.trial.workload, &*record.trial.arm);
        let count = counts.entry(place).or_default();
        count.0 += u32::from(matches!(record.outcome, TrialOutcome::Void(_)));
        count.1 += 1;
    }
    let mut details = Vec::new();
    for (&(workload, arm), &of_arm) in &counts {
        let baseline = counts.get(&(workload, &*subject.run.plan.baseline));
        let of_baseline = baseline.copied().unwrap_or_default();
        for (failed, rest, name) in [
            (of_arm, of_baseline, arm),
            (of_baseline, of_arm, &*subject.run.plan.baseline),
        ] {
            if at_least(failed, rest) < CHANCE {
                let (worse, better) = (failed.0.into(), rest.0.into());
                details.push(beyond(
                    workload,
                    name,
                    Quantity::FailedAttempts,
                    worse,
                    better,
                ));
            }
        }
    }
    if details.is_empty() && !subject.all_are_measured() {
        return unknown(Missing::Trial);
    }
    unless(details)
}

/// Probability that at least this many of all failures fall on one side, if both fail equally often (Fisher's exact test).
fn at_least((failed, attempts): Attempts, (other_failed, other_attempts): Attempts) -> f64 {
    let all_failed = failed + other_failed;
    let all = choose(attempts + other_attempts, all_failed);
    (failed..=all_failed.min(attempts))
        .map(|failed| choose(attempts, failed) * choose(other_attempts, all_failed - failed) / all)
        .sum()
}

/// The binomial coefficient: ways to choose `chosen` of `all`.
fn choose(all: u32, chosen: u32) -> f64 {
    if chosen > all {
        return 0.0;
    }
    (0..chosen).fold(1.0, |ways, step| {
        ways * f64::from(all - step) / f64::from(step + 1)
    })
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn an_arm_that_fails_more_often_is_found() {
        let failing = |failures: u32| {
            let blocks = whole().blocks(&[[100.0, 101.0]; 6]);
            let builder = (1..=failures).fold(blocks, |builder, block| builder.void(block, "7.2"));
            outcome(&super::CHECK, &builder.run())
        };
        assert_eq!(failing(0), Outcome::Passed);
        // Two failures of ten may fall on one arm.
        assert_eq!(failing(2), Outcome::Passed);
        assert!(is_failed(&failing(6)));
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }

    #[test]
    fn the_chance_of_a_split_is_exact() {
        // R: fisher.test(matrix(c(3, 7, 0, 10), 2), alternative = "greater").
        assert!((super::at_least((3, 10), (0, 10)) - 0.105_263_16).abs() < 1e-8);
        assert!((super::at_least((0, 10), (3, 10)) - 1.0).abs() < 1e-9);
    }
}
