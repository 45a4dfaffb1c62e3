//! Did arms take turns in being first?

use record::metric::Role;
use record::verdict::fairness::{Missing, Outcome, Quantity};

use crate::topics::fairness::subject::{Subject, beyond, not_known, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "order",
    group: Group::Measurement,
    question: "Did arms take turns in being first?",
    reads: "the order of trials in each block",
    passes: "no arm is first in all blocks of six or more",
    why: "A host that warms up, or fills its disk, favours whoever comes first, always.",
    mend: "another `seed`: the order is drawn from it",
    judge: Judge::Run(order),
    foreseen: Foreseen::Nothing,
};

/// Blocks from which on one order in all of them is no chance any more.
const BLOCKS: usize = 6;

fn order(subject: &Subject<'_>) -> Outcome {
    let mut details = Vec::new();
    let mut is_known = false;
    let comparisons = subject.judgement.comparisons.iter();
    for one in comparisons.filter(|one| one.spec.role == Role::Primary) {
        let first = one.pairs.iter().filter(|pair| pair.arm_first).count();
        is_known |= one.pairs.len() >= BLOCKS;
        if one.pairs.len() >= BLOCKS && (first == 0 || first == one.pairs.len()) {
            let most = one.pairs.len() as f64 - 1.0;
            let place = (one.workload.as_str(), one.arm.as_str());
            details.push(beyond(place, Quantity::FirstInBlock, first as f64, most));
        }
    }
    if is_known {
        unless(details)
    } else {
        not_known(Missing::Blocks {
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
        let told = |first: fn(u32) -> bool, blocks: u32| {
            let mut judgement = judged(&run);
            judgement.comparisons = vec![compared(blocks, first)];
            outcome_of(&super::CHECK, &run, &judgement)
        };
        assert_eq!(told(|block| block % 2 == 0, 8), Outcome::Pass);
        assert!(is_violation(&told(|_| false, 8)));
        assert!(is_unknown(&told(|_| false, 3)));
    }
}
