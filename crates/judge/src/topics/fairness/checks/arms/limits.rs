//! Do servers have the same limits?

use plan::{Arm, Plan};
use record::verdict::fairness::Outcome;

use crate::topics::fairness::foreseen::{by_plan, differing};
use crate::topics::fairness::subject::kernels_differ;
use crate::topics::fairness::{Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "limits",
    group: Group::Arms,
    question: "Do servers have the same limits?",
    reads: "`/proc/PID/limits` of each server",
    passes: "all arms have the same; not asked of workloads without a server",
    why: "Mindcraft 1999: Apache could open 1016 files.",
    mend: "start all arms' servers alike; limits come from bakeoff, or from the host",
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
    let own = |arm: &Arm| arm.tuning.nofile.map(|files| files.to_string());
    let details = vec![differing(plan, "nofile", own)?];
    // Beside another kernel a limit is no question but a handicap.
    Some(if kernels_differ(plan) {
        Outcome::Violation { details }
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
