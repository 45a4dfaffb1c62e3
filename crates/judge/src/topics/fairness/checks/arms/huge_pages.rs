//! Are huge pages used alike?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "huge-pages",
    group: Group::Arms,
    question: "Are huge pages used alike?",
    reads: "`/sys/kernel/mm/transparent_hugepage`, `HugePages_Total`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "Databases and Java gain or lose more by huge pages than by most new kernels.",
    mend: "`transparent_hugepage=` alike in all arms",
    judge: Judge::Equal(&FACTS, Cause::KernelOrMemory),
    foreseen: Foreseen::Parameters(&[
        "transparent_hugepage",
        "hugepages",
        "hugepagesz",
        "default_hugepagesz",
    ]),
};

const FACTS: [Fact; 4] = [
    Fact::May(fact::HUGE_PAGES),
    Fact::May("/sys/kernel/mm/transparent_hugepage/defrag"),
    Fact::Must("/proc/meminfo:HugePages_Total"),
    Fact::May("/proc/meminfo:Hugepagesize"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/kernel/mm/transparent_hugepage/enabled",
        );
    }
}
