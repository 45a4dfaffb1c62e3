//! All disks have the same scheduler, queue and read-ahead.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "io-scheduler",
    group: Group::Arms,
    must_hold: "All disks have the same scheduler, queue and read-ahead.",
    why: "InfoWorld's test of 2004 depended on this setting alone: 37 s against 3.9 s.",
    mend: "Set the same `io_scheduler` in all arms.",
    reads: "`/sys/block/*/queue`",
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
