//! Do all arms have the same memory nodes?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "numa",
    group: Group::Arms,
    question: "Do all arms have the same memory nodes?",
    reads: "`/sys/devices/system/node`, of the host too",
    passes: "all arms have the same",
    why: "Memory of another node is up to twice as far away.",
    mend: "boot all arms with the same firmware settings and without `numa=off` in one of them",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 3] = [
    Fact::May(fact::NODES_ONLINE),
    Fact::May(fact::NUMA),
    Fact::May("host:hardware:numa"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/devices/system/node/online",
        );
    }
}
