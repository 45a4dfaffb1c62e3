//! All arms have the same swap space.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "swap",
    group: Group::Arms,
    must_hold: "All arms have the same swap space.",
    why: "An arm that swaps runs at the speed of its disk.",
    mend: "Give all arms the same swap, or none.",
    reads: "`/proc/swaps`",
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
