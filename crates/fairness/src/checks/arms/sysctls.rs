//! Are the kernels' settings the same?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "sysctls",
    group: Group::Arms,
    question: "Are the kernels' settings the same?",
    reads: "all of `/proc/sys`",
    passes: "all arms have the same; what comes with different kernels is declared, unless the plan's `mode` is `\"controlled\"` and all kernels have the setting",
    why: "A changed default (`sched_*`, `tcp_*`, `vm.*`) can make the whole difference between two kernels, and can be set back.",
    mend: "pin what differs in `[pinned]` of the plan; `bakeoff fairness RUN --pin` prints it",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::Kernel)),
};

const FACTS: [&str; 1] = ["sysctl *"];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "sysctl vm.swappiness");
    }
}
