//! Each server has the same number of workers in all arms.

use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "workers",
    group: Group::Arms,
    must_hold: "Each server has the same number of workers in all arms.",
    why: "A server that sizes itself by the machine may start more workers in one arm.",
    mend: "Set the number in the `config` of all arms.",
    reads: "the number of workers of each server",
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
