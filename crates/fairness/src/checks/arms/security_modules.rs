//! Are the same security modules at work?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "security-modules",
    group: Group::Arms,
    question: "Are the same security modules at work?",
    reads: "`/sys/kernel/security/lsm`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "Each module is asked at each open, connect and exec.",
    mend: "`lsm=` alike in all arms' `cmdline`",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::Kernel)),
};

const FACTS: [&str; 1] = ["/sys/kernel/security/lsm"];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "/sys/kernel/security/lsm");
    }
}
