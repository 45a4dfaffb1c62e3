//! Do all arms have as many CPUs?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "cpus",
    group: Group::Arms,
    question: "Do all arms have as many CPUs?",
    reads: "CPUs that servers may run on, CPUs online",
    passes: "all arms have the same, or the plan gives an arm its own number",
    why: "A kernel that starts one CPU less, or a `maxcpus=` left over from a test, is a difference of whole CPUs.",
    mend: "set `cpus` of the machine, or of an arm if that is the question",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::None)),
};

const FACTS: [&str; 4] = [
    "cpus",
    "/proc/cpuinfo:count",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/isolated",
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "/sys/devices/system/cpu/online");
    }
}
