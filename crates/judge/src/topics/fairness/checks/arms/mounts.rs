//! All file systems have the same mount options.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "mounts",
    group: Group::Arms,
    must_hold: "All file systems have the same mount options.",
    why: "`noatime`, barriers and journal modes change the cost of a write.",
    mend: "Mount them with the same options. An old kernel may have an option without listing it.",
    reads: "`/proc/mounts`",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 1] = [Fact::Must(fact::MOUNTS)];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "/proc/mounts");
    }
}
