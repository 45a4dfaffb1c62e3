//! All arms have the same cgroup controllers.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "control-groups",
    group: Group::Arms,
    must_hold: "All arms have the same cgroup controllers.",
    why: "The memory controller counts every page and socket buffer.",
    mend: "Set the same `cgroup_disable=` in all arms.",
    reads: "`cgroup.controllers`",
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
