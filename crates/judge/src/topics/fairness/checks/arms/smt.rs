//! Is simultaneous multithreading on or off in all arms?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "smt",
    group: Group::Arms,
    question: "Is simultaneous multithreading on or off in all arms?",
    reads: "`/sys/devices/system/cpu/smt`, of the host too",
    passes: "all arms have the same",
    why: "A kernel that turns siblings off as a mitigation has half of the CPUs of one that does not.",
    mend: "set `nosmt` in all arms or in none",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 3] = [
    Fact::May(fact::SMT_ACTIVE),
    Fact::May(fact::SMT_CONTROL),
    Fact::May("host:hardware:cpu:smt"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/devices/system/cpu/smt/active",
        );
    }
}
