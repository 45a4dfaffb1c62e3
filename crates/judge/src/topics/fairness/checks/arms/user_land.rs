//! All arms have the same installed packages.

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "user-land",
    group: Group::Arms,
    must_hold: "All arms have the same installed packages.",
    why: "Another version of OpenSSL or the C library also changes figures.",
    mend: "Use one image for all arms.",
    reads: "a hash of the list of installed packages",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::Nothing,
};

const FACTS: [Fact; 2] = [Fact::May(fact::USERLAND), Fact::May(fact::DEBIAN_VERSION)];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "hash:userland");
    }
}
