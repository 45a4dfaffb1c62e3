//! All arms mitigate the same CPU vulnerabilities in the same way.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "mitigations",
    group: Group::Arms,
    must_hold: "All arms mitigate the same CPU vulnerabilities in the same way.",
    why: "Page-table isolation and retpolines can make system calls tens of percent slower.",
    mend: "Set the same `mitigations=` in all arms.",
    reads: "`/sys/devices/system/cpu/vulnerabilities`",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Parameters(&[
        "mitigations",
        "nopti",
        "pti",
        "nospectre_v1",
        "nospectre_v2",
        "spectre_v2",
        "spec_store_bypass_disable",
        "retbleed",
        "l1tf",
        "mds",
        "tsx_async_abort",
        "mmio_stale_data",
        "srbds",
        "gather_data_sampling",
    ]),
};

const FACTS: [Fact; 1] = [Fact::May("/sys/devices/system/cpu/vulnerabilities/*")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/devices/system/cpu/vulnerabilities/meltdown",
        );
    }
}
