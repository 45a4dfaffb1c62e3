//! Do all arms serve with as many workers?

use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "workers",
    group: Group::Arms,
    question: "Do all arms serve with as many workers?",
    reads: "workers that each server was given",
    passes: "all arms have the same; not asked of workloads without a server",
    why: "A server that sizes itself by the machine has more of them in one arm.",
    mend: "set the number in `config` of all arms",
    judge: Judge::OfServers(&FACTS),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 1] = [Fact::May("workers:*")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "workers:nginx");
    }
}
