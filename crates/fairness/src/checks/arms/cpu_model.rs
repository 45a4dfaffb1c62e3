//! Do all arms run on the same CPU model and microcode?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "cpu-model",
    group: Group::Arms,
    question: "Do all arms run on the same CPU model and microcode?",
    reads: "`/proc/cpuinfo`, of the host too, the emulator's CPU model",
    passes: "all arms have the same",
    why: "Microcode updates have cost single percents to tens of percents since 2018, and another model is another machine.",
    mend: "run all arms on one host, or in guests of one `cpu_model`",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::None)),
};

const FACTS: [&str; 6] = [
    "/proc/cpuinfo:model name",
    "/proc/cpuinfo:microcode",
    "/proc/cpuinfo:stepping",
    "machine:cpu",
    "host:hardware:cpu:model",
    "host:hardware:cpu:microcode",
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "/proc/cpuinfo:model name");
    }
}
