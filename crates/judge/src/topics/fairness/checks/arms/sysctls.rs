//! All arms have the same sysctls.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "sysctls",
    group: Group::Arms,
    must_hold: "All arms have the same sysctls. Sizes that kernels derive from memory may differ by up to 3 %.",
    why: "A changed default (`sched_*`, `tcp_*`, `vm.*`) can be the whole difference between two kernels.",
    mend: "Pin what `bakeoff show RUN --pin` prints.",
    reads: "all of `/proc/sys`, as servers and as the first network namespace see it",
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
