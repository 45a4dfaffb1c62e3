//! All arms run on the same CPU model and microcode.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "cpu-model",
    group: Group::Arms,
    must_hold: "All arms run on the same CPU model and microcode.",
    why: "Since 2018, microcode updates have cost up to tens of percent.",
    mend: "Run all arms on one host, or in guests with one `cpu_model`.",
    reads: "`/proc/cpuinfo` of guest and host, the emulator's CPU model",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 6] = [
    Fact::Must(fact::CPU_MODEL),
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
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, super::fact::CPU_MODEL);
    }
}
