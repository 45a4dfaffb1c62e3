//! Is everything but the kernel the same?

use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};
use record::fact;

pub(crate) const CHECK: Check = Check {
    id: "user-land",
    group: Group::Arms,
    question: "Is everything but the kernel the same?",
    reads: "a hash of the list of installed packages",
    passes: "all arms have the same",
    why: "A C library or OpenSSL of another version is a difference of its own.",
    mend: "one image for all arms",
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
