//! All kernels have the same build options.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "kernel-configuration",
    group: Group::Arms,
    must_hold: "All kernels have the same build options.",
    why: "Debugging options (lock debugging, KASAN) can halve a kernel's speed. HZ, preemption and hardening cost a few percent.",
    mend: "Pin what `bakeoff show RUN --pin` prints, or build all kernels from one configuration. To compare products, set `mode = \"as-shipped\"`.",
    reads: "the build configuration of each kernel",
    judge: Judge::Equal(&FACTS, Cause::Kernel),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 1] = [Fact::Must("CONFIG_*")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "CONFIG_HZ");
    }
}
