//! No arm runs first in all of six or more blocks.

use record::metric::Role;
use record::verdict::fairness::{Missing, Outcome, Quantity};

use crate::topics::fairness::subject::{Subject, beyond, unknown, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "order",
    group: Group::Measurement,
    must_hold: "No arm runs first in all of six or more blocks.",
    why: "A host that warms up or fills its disk favours the first arm.",
    mend: "Use another `seed`, which gives another order.",
    reads: "the order of trials in each block",
    judge: Judge::Run(order),
    foreseen: Foreseen::Nothing,
};

/// With this many blocks, one order in all of them is not chance.
const BLOCKS: usize = 6;

fn order(subject: &Subject<'_>) -> Outcome {
    let mut details = Vec::new();
    let mut is_known = false;
    let comparisons = subject.judgement.comparisons.iter();
    for comparison in comparisons.filter(|comparison| comparison.spec.role == Role::Primary) {
        let first = comparison
            .pairs
            .iter()
            .filter(|pair| pair.arm_first)
            .count();
        is_known |= comparison.pairs.len() >= BLOCKS;
        if comparison.pairs.len() >= BLOCKS && (first == 0 || first == comparison.pairs.len()) {
            let most = comparison.pairs.len() as f64 - 1.0;
            details.push(beyond(
                &comparison.workload,
                &comparison.arm,
                Quantity::FirstInBlock,
                first as f64,
                most,
            ));
        }
    }
    if is_known {
        unless(details)
    } else {
        unknown(Missing::Blocks {
            needed: BLOCKS as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn one_order_in_all_blocks_is_found() {
        let run = whole().run();
        let result = |first: fn(u32) -> bool, blocks: u32| {
            let mut judgement = judged(&run);
            judgement.comparisons = vec![compared(blocks, first)];
            outcome_of(&super::CHECK, &run, &judgement)
        };
        assert_eq!(result(|block| block % 2 == 0, 8), Outcome::Passed);
        assert!(is_failed(&result(|_| false, 8)));
        assert!(is_unknown(&result(|_| false, 3)));
    }
}
