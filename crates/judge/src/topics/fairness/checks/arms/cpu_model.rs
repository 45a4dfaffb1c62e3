//! Do all arms run on the same CPU model and microcode?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "cpu-model",
    group: Group::Arms,
    question: "Do all arms run on the same CPU model and microcode?",
    reads: "`/proc/cpuinfo`, of the host too, the emulator's CPU model",
    passes: "all arms have the same",
    why: "Microcode updates have cost single percents to tens of percents since 2018, and another model is another machine.",
    mend: "run all arms on one host, or in guests of one `cpu_model`",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 6] = [
    Fact::Must("/proc/cpuinfo:model name"),
    Fact::May(fact::CPU_MICROCODE),
    Fact::May("/proc/cpuinfo:stepping"),
    Fact::May(fact::MACHINE_CPU),
    Fact::May("host:hardware:cpu:model"),
    Fact::May("host:hardware:cpu:microcode"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "/proc/cpuinfo:model name");
    }
}
