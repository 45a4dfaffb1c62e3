//! Each server has the same number of workers in all arms, and Java the same collector and pools.

use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "workers",
    group: Group::Arms,
    must_hold: "Each server has the same number of workers in all arms. Java has the same version, heap, collector, compilers, worker threads and database connections.",
    why: "A server that sizes itself by the machine may start more workers in one arm. Java may choose another collector.",
    mend: "Set the number in the `config` of all arms, and the `collector` in the workload.",
    reads: "the number of workers of each server, and what Java and its server report of their settings",
    judge: Judge::OfServers(&FACTS),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 2] = [Fact::May("workers:*"), Fact::May("java:*")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "workers:nginx");
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "java:collector");
    }
}
