//! Are the same security modules at work?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "security-modules",
    group: Group::Arms,
    question: "Are the same security modules at work?",
    reads: "`/sys/kernel/security/lsm`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "Each module is asked at each open, connect and exec.",
    mend: "the same `lsm=` in `cmdline` of the plan's `[pinned]`; `ima` and `evm` are always on in kernels that have them as modules, and stay a difference",
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
