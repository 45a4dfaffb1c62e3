//! Are the kernels built with the same options?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "kernel-configuration",
    group: Group::Arms,
    question: "Are the kernels built with the same options?",
    reads: "the configuration that each kernel was built with",
    passes: "all arms have the same; what comes with different kernels is declared, unless the plan's `mode` is `\"controlled\"` and a parameter would make them alike",
    why: "Debugging options (lock debugging, KASAN) have made kernels seem half as fast; HZ, preemption and hardening move single percents.",
    mend: "pin what kernels have parameters for (`bakeoff show RUN --pin`), build both from one configuration, or say that products are compared: `mode = \"as-shipped\"`",
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
