//! All arms run the same security modules.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "security-modules",
    group: Group::Arms,
    must_hold: "All arms run the same security modules.",
    why: "The kernel asks each module at every open, connect and exec.",
    mend: "Set the same `lsm=` in the `cmdline` of `[pinned]`. `ima` and `evm` cannot be turned off, so their difference stays.",
    reads: "`/sys/kernel/security/lsm`",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Parameters(&["lsm", "security", "apparmor", "selinux"]),
};

const FACTS: [Fact; 1] = [Fact::May(fact::SECURITY_MODULES)];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "/sys/kernel/security/lsm");
    }
}
