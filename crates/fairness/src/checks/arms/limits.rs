//! Do servers have the same limits?

use crate::equal::{Cause, equal};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "limits",
    group: Group::Arms,
    question: "Do servers have the same limits?",
    reads: "`/proc/PID/limits` of each server",
    passes: "all arms have the same",
    why: "Mindcraft 1999: Apache could open 1016 files.",
    mend: "start all arms' servers alike; limits come from bakeoff, or from the host",
    judge: Judge::Run(|subject| equal(subject, &FACTS, Cause::None)),
};

const FACTS: [&str; 4] = [
    "limit:*:open files",
    "limit:*:locked memory",
    "limit:*:stack size",
    "limit:*:address space",
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "limit:nginx:open files");
    }
}
