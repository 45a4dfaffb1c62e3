//! All arms have the same frequency driver, governor, turbo and idle states.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "power",
    group: Group::Arms,
    must_hold: "All arms have the same frequency driver, governor, turbo and idle states.",
    why: "Another default driver gives another CPU frequency. `intel_pstate` against `acpi-cpufreq` made headlines more than once.",
    mend: "Set the same governor, and check it with `bakeoff doctor`.",
    reads: "`cpufreq`, `intel_pstate`, `cpuidle`",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 11] = [
    Fact::May("/sys/devices/system/cpu/cpufreq/*"),
    Fact::May("/sys/devices/system/cpu/intel_pstate/*"),
    Fact::May(fact::CPUIDLE_DRIVER),
    Fact::May(fact::HOST_GOVERNOR),
    Fact::May("host:turbo"),
    Fact::May("hardware:cpu:frequency-driver"),
    Fact::May("hardware:cpu:governor"),
    Fact::May("hardware:cpu:turbo"),
    Fact::May("host:hardware:cpu:frequency-driver"),
    Fact::May("host:hardware:cpu:governor"),
    Fact::May("host:hardware:cpu:turbo"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/devices/system/cpu/cpuidle/current_driver",
        );
    }
}
