//! All arms write dirty memory back by the same rules.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "writeback",
    group: Group::Arms,
    must_hold: "All arms write dirty memory back by the same rules.",
    why: "The limits of dirty memory decide whether a write waits for the disk.",
    mend: "Set the same `vm.dirty_*` in the `sysctl` of all arms.",
    reads: "`vm.dirty_*`",
    judge: Judge::Equal(&FACTS, Cause::KernelOrMemory),
    foreseen: Foreseen::Sysctls(&["vm.dirty_*"]),
};

const FACTS: [Fact; 6] = [
    Fact::Must("sysctl vm.dirty_ratio"),
    Fact::Must("sysctl vm.dirty_background_ratio"),
    Fact::Must("sysctl vm.dirty_bytes"),
    Fact::Must("sysctl vm.dirty_background_bytes"),
    Fact::Must("sysctl vm.dirty_expire_centisecs"),
    Fact::Must("sysctl vm.dirty_writeback_centisecs"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "sysctl vm.dirty_ratio");
    }
}
