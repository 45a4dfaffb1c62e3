//! Do servers have the same limits?

use crate::{Check, Fact, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "limits",
    group: Group::Arms,
    question: "Do servers have the same limits?",
    reads: "`/proc/PID/limits` of each server",
    passes: "all arms have the same; not asked of workloads without a server",
    why: "Mindcraft 1999: Apache could open 1016 files.",
    mend: "start all arms' servers alike; limits come from bakeoff, or from the host",
    judge: Judge::OfServers(&FACTS),
};

const FACTS: [Fact; 4] = [
    Fact::May("limit:*:open files"),
    Fact::May("limit:*:locked memory"),
    Fact::May("limit:*:stack size"),
    Fact::May("limit:*:address space"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::tests::arms_must_agree(&super::CHECK, "limit:nginx:open files");
    }
}
