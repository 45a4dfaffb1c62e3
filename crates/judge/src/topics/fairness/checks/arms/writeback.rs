//! Is dirty memory written back by the same rules?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "writeback",
    group: Group::Arms,
    question: "Is dirty memory written back by the same rules?",
    reads: "`vm.dirty_*`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "How much may stay dirty decides whether a write costs memory or a disk.",
    mend: "set `vm.dirty_*` alike in the arms' `sysctl`",
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
