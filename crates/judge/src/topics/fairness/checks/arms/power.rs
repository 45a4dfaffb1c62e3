//! Have all arms the same frequency driver, governor, turbo and idle states?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "power",
    group: Group::Arms,
    question: "Have all arms the same frequency driver, governor, turbo and idle states?",
    reads: "`cpufreq`, `intel_pstate`, `cpuidle`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "A kernel with another default driver runs at another frequency: `intel_pstate` against `acpi-cpufreq` has been a headline more than once.",
    mend: "set the governor alike; see `bakeoff doctor`",
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
