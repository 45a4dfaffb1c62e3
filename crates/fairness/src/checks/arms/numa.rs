//! Do all arms have the same memory nodes?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "numa",
    group: Group::Arms,
    question: "Do all arms have the same memory nodes?",
    reads: "`/sys/devices/system/node`, of the host too",
    passes: "all arms have the same",
    why: "Memory of another node is up to twice as far away.",
    mend: "boot all arms with the same firmware settings and without `numa=off` in one of them",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::None)),
};

const FACTS: [&str; 3] = [
    "/sys/devices/system/node/online",
    "hardware:numa",
    "host:hardware:numa",
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "/sys/devices/system/node/online");
    }
}
