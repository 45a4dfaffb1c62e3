//! Have the disks the same scheduler, queue and read-ahead?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "io-scheduler",
    group: Group::Arms,
    question: "Have the disks the same scheduler, queue and read-ahead?",
    reads: "`/sys/block/*/queue`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "InfoWorld's test of 2004 was decided by this one setting: 37 s against 3.9 s.",
    mend: "write the same `io_scheduler` in all arms",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 1] = [Fact::May("/sys/block/*")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/block/vda/queue/scheduler",
        );
    }
}
