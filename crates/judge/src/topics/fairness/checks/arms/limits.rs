//! All servers have the same resource limits.

use plan::{Arm, Plan};
use record::verdict::fairness::Outcome;

use crate::topics::fairness::foreseen::{by_plan, differing};
use crate::topics::fairness::subject::kernels_differ;
use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "limits",
    group: Group::Arms,
    must_hold: "All servers have the same resource limits.",
    why: "Mindcraft 1999: Apache could open 1016 files.",
    mend: "Start the servers of all arms in the same way. bakeoff or the host sets their limits.",
    reads: "`/proc/PID/limits` of each server",
    judge: Judge::OfServers(&FACTS),
    foreseen: Foreseen::System(foresee),
};

const FACTS: [Fact; 4] = [
    Fact::May("limit:*:open files"),
    Fact::May("limit:*:locked memory"),
    Fact::May("limit:*:stack size"),
    Fact::May("limit:*:address space"),
];

fn foresee(plan: &Plan) -> Option<Outcome> {
    let nofile = |arm: &Arm| arm.tuning.nofile.map(|files| files.to_string());
    let details = vec![differing(plan, "nofile", nofile)?];
    // Beside another kernel, a limit is a handicap.
    Some(if kernels_differ(plan) {
        Outcome::Failed { details }
    } else {
        by_plan(details)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "limit:nginx:open files");
    }
}
