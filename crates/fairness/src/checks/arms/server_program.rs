//! Do all arms serve with the same program?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-program",
    group: Group::Arms,
    question: "Do all arms serve with the same program?",
    reads: "hash and version of each server's program",
    passes: "all arms have the same",
    why: "Another build of nginx is another arm.",
    mend: "install one version, or name it in the arms",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::None)),
};

const FACTS: [&str; 2] = ["hash:server:*", "version:*"];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "hash:server:nginx");
    }
}
