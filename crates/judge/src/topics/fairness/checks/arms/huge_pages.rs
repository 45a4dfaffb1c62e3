//! All arms use huge pages in the same way.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "huge-pages",
    group: Group::Arms,
    must_hold: "All arms use huge pages in the same way.",
    why: "Huge pages change the speed of databases and Java more than most new kernels do.",
    mend: "Set the same `transparent_hugepage=` in all arms.",
    reads: "`/sys/kernel/mm/transparent_hugepage`, `HugePages_Total`",
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
