//! Do all arms serve with the same program?

use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-program",
    group: Group::Arms,
    question: "Do all arms serve with the same program?",
    reads: "hash and version of each server's program",
    passes: "all arms have the same; not asked of workloads without a server",
    why: "Another build of nginx is another arm.",
    mend: "install one version, or name it in the arms",
    judge: Judge::OfServers(&FACTS),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 2] = [Fact::May("hash:server:*"), Fact::May("version:*")];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "hash:server:nginx");
    }
}
