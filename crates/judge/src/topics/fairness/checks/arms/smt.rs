//! Simultaneous multithreading is on in all arms, or off in all.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "smt",
    group: Group::Arms,
    must_hold: "Simultaneous multithreading is on in all arms, or off in all.",
    why: "A kernel that turns it off as a mitigation loses half of the CPUs.",
    mend: "Set `nosmt` in all arms or in none.",
    reads: "`/sys/devices/system/cpu/smt/active` of the guest, `control` of the host",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::Nothing,
};

// Not the guest's `control`: on CPUs without SMT its word depends on the kernel's version.
const FACTS: [Fact; 2] = [
    Fact::May(fact::SMT_ACTIVE),
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
