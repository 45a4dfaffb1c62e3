//! All arms run the same build of each server.

use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-program",
    group: Group::Arms,
    must_hold: "All arms run the same build of each server.",
    why: "With two builds of nginx, nobody knows which change the figures show.",
    mend: "Install one version, or name the versions in the arms.",
    reads: "hash and version of each server's program",
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
