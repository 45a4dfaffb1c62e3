//! All kernels report the same problems at boot.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "boot-log",
    group: Group::Arms,
    must_hold: "All kernels report the same problems at boot.",
    why: "Only the boot log shows a fallback: no TSC, no IOMMU, a missing firmware.",
    mend: "Read the lines in the report.",
    reads: "lines of the boot log that report a failure",
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
