//! Have all arms the same frequency driver, governor, turbo and idle states?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "power",
    group: Group::Arms,
    question: "Have all arms the same frequency driver, governor, turbo and idle states?",
    reads: "`cpufreq`, `intel_pstate`, `cpuidle`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "A kernel with another default driver runs at another frequency: `intel_pstate` against `acpi-cpufreq` has been a headline more than once.",
    mend: "set the governor alike; see `bakeoff doctor`",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::Kernel)),
};

const FACTS: [&str; 11] = [
    "/sys/devices/system/cpu/cpufreq/*",
    "/sys/devices/system/cpu/intel_pstate/*",
    "/sys/devices/system/cpu/cpuidle/current_driver",
    "host:governor",
    "host:turbo",
    "hardware:cpu:frequency-driver",
    "hardware:cpu:governor",
    "hardware:cpu:turbo",
    "host:hardware:cpu:frequency-driver",
    "host:hardware:cpu:governor",
    "host:hardware:cpu:turbo",
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(
            &super::CHECK,
            "/sys/devices/system/cpu/cpuidle/current_driver",
        );
    }
}
