//! Do all kernels complain of the same things at boot?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "boot-log",
    group: Group::Arms,
    question: "Do all kernels complain of the same things at boot?",
    reads: "lines of the boot log with words of failure",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "A fallback (no TSC, no IOMMU, a firmware that is missing) is told there and nowhere else.",
    mend: "read the lines; `bakeoff report` has them",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 1] = [Fact::Must("boot log*")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "boot log: tsc: marked unstable",
        );
    }
}
