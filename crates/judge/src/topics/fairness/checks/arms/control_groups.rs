//! Are the same controllers of control groups at work?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "control-groups",
    group: Group::Arms,
    question: "Are the same controllers of control groups at work?",
    reads: "`cgroup.controllers`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "The memory controller accounts each page and socket buffer.",
    mend: "`cgroup_disable=` alike in all arms",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Parameters(&["cgroup_disable"]),
};

const FACTS: [Fact; 1] = [Fact::May(fact::CGROUP_CONTROLLERS)];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/fs/cgroup/cgroup.controllers",
        );
    }
}
