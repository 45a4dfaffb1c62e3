//! All arms have the same memory nodes.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "numa",
    group: Group::Arms,
    must_hold: "All arms have the same memory nodes.",
    why: "Memory of another node can take twice as long to reach.",
    mend: "Use the same firmware settings, and `numa=off` in all arms or in none.",
    reads: "`/sys/devices/system/node` of guest and host",
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
