//! Are the kernels' settings the same?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "sysctls",
    group: Group::Arms,
    question: "Are the kernels' settings the same?",
    reads: "all of `/proc/sys`, as servers see it and what only the first network namespace has; sizes that kernels work out from their memory differ from 3 % on",
    passes: "all arms have the same; what comes with different kernels is declared, unless the plan's `mode` is `\"controlled\"` and all kernels have the setting",
    why: "A changed default (`sched_*`, `tcp_*`, `vm.*`) can make the whole difference between two kernels, and can be set back.",
    mend: "pin what differs in `[pinned]` of the plan; `bakeoff show RUN --pin` prints it",
    judge: Judge::Equal(&FACTS, Cause::KernelOrMemory),
    foreseen: Foreseen::Sysctls(&["*"]),
};

const FACTS: [Fact; 1] = [Fact::Must("sysctl *")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "sysctl vm.swappiness");
    }
}
