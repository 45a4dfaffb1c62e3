//! Do all arms have the same swap?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "swap",
    group: Group::Arms,
    question: "Do all arms have the same swap?",
    reads: "`/proc/swaps`",
    passes: "all arms have the same",
    why: "An arm that swaps is measured by its disk.",
    mend: "give all arms the same swap, or none",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 2] = [Fact::Must(fact::SWAPS), Fact::May(fact::SWAP_TOTAL)];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "/proc/swaps");
    }
}
