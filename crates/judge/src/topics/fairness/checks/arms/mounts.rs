//! Are file systems mounted with the same options?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "mounts",
    group: Group::Arms,
    question: "Are file systems mounted with the same options?",
    reads: "`/proc/mounts`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "`noatime`, barriers and journal modes change what a write is.",
    mend: "mount alike; options that a new kernel shows and an old one has are no difference in fact",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 1] = [Fact::Must(fact::MOUNTS)];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "/proc/mounts");
    }
}
