//! Do all arms have as many CPUs?

use crate::{Cause, Check, Fact, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "cpus",
    group: Group::Arms,
    question: "Do all arms have as many CPUs?",
    reads: "CPUs that servers may run on, CPUs online",
    passes: "all arms have the same, or the plan gives an arm its own number",
    why: "A kernel that starts one CPU less, or a `maxcpus=` left over from a test, is a difference of whole CPUs.",
    mend: "set `cpus` of the machine, or of an arm if that is the question",
    judge: Judge::Equal(&FACTS, Cause::None),
};

const FACTS: [Fact; 4] = [
    Fact::May("cpus"),
    Fact::Must("/proc/cpuinfo:count"),
    Fact::Must("/sys/devices/system/cpu/online"),
    Fact::May("/sys/devices/system/cpu/isolated"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "/sys/devices/system/cpu/online");
    }
}
