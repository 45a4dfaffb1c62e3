//! At most 1 of 1,000 requests fails in every arm.

use std::collections::BTreeMap;

use record::verdict::fairness::{Missing, Outcome, Quantity};

use crate::topics::fairness::subject::{Subject, beyond, unknown, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "failed-requests",
    group: Group::Work,
    must_hold: "At most 1 of 1,000 requests fails in every arm.",
    why: "A refused connection takes no time. If it counted as fast, it would win.",
    mend: "Read the kinds of faults in the report, or reduce the load.",
    reads: "the server's faults by arm, except those of a planned disturbance",
    judge: Judge::Run(failed_requests),
    foreseen: Foreseen::Nothing,
};

/// Share of requests that may fail.
const BUDGET: f64 = 0.001;

fn failed_requests(subject: &Subject<'_>) -> Outcome {
    if !subject.all_are_measured() {
        return unknown(Missing::Trial);
    }
    let mut sums = BTreeMap::<(&str, &str), (u64, u64)>::new();
    for (workload, arm, measurement) in subject.measured() {
        if let Some(load) = &measurement.load {
            let failed = measurement.unplanned_failures();
            let sum = sums.entry((workload, arm)).or_default();
            *sum = (sum.0.saturating_add(failed), sum.1.saturating_add(load.ok));
        }
    }
    if sums.is_empty() {
        return Outcome::NotApplicable;
    }
    let share = |(failed, ok): (u64, u64)| failed as f64 / (failed + ok).max(1) as f64;
    let details = sums
        .into_iter()
        .filter(|(_, counts)| share(*counts) > BUDGET);
    let detail = |((workload, arm), counts)| {
        beyond(
            workload,
            arm,
            Quantity::FailedRequests,
            share(counts),
            BUDGET,
        )
    };
    unless(details.map(detail).collect())
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn failures_beyond_the_budget_are_found() {
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Passed);
        let failing = whole().with(|run| {
            change_measured(run, |measurement| {
                let load = measurement.load.get_or_insert_default();
                load.faults.insert(record::load::Fault::Reset, 5);
            });
        });
        assert!(is_failed(&outcome(&super::CHECK, &failing.run())));
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
