//! Are huge pages used alike?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "huge-pages",
    group: Group::Arms,
    question: "Are huge pages used alike?",
    reads: "`/sys/kernel/mm/transparent_hugepage`, `HugePages_Total`",
    passes: "all arms have the same; what comes with different kernels is declared",
    why: "Databases and Java gain or lose more by huge pages than by most new kernels.",
    mend: "`transparent_hugepage=` alike in all arms",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::Kernel)),
};

const FACTS: [&str; 4] = [
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/proc/meminfo:HugePages_Total",
    "/proc/meminfo:Hugepagesize",
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "/sys/kernel/mm/transparent_hugepage/enabled");
    }
}
