//! The listen queue has a place for each connection.

use plan::{Arm, Plan};
use record::evidence::Facts;
use record::verdict::fairness::{Outcome, Quantity};

use crate::topics::fairness::foreseen::{sysctl, too_few};
use crate::topics::fairness::subject::{Subject, for_each_connection};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "listen-backlog",
    group: Group::Arms,
    must_hold: "The listen queue has a place for each connection.",
    why: "Linux before 5.4 has 128 places. A client beyond that waits a second and tries again.",
    mend: "Raise `net.core.somaxconn` in all arms, or use fewer connections.",
    reads: "`net.core.somaxconn`, connections of the load",
    judge: Judge::Run(backlog),
    foreseen: Foreseen::System(foresee),
};

/// Places in the queue that a connection takes.
const FOR_EACH: f64 = 1.0;

const SYSCTL: &str = "net.core.somaxconn";

const FACT: &str = "sysctl net.core.somaxconn";

fn backlog(subject: &Subject<'_>) -> Outcome {
    let places = |facts: &Facts| facts.sysctls.get(SYSCTL)?.parse::<f64>().ok();
    for_each_connection(subject, Quantity::Backlog, FOR_EACH, FACT, places)
}

fn foresee(plan: &Plan) -> Option<Outcome> {
    let places = |arm: &Arm| sysctl(arm, "net.core.somaxconn")?.trim().parse().ok();
    too_few(plan, Quantity::Backlog, FOR_EACH, places)
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_short_queue_is_found() {
        let result = |places: &str| {
            let run = two_arms("sysctl net.core.somaxconn", [places, "4096"]);
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(result("128"), Outcome::Passed);
        assert!(is_failed(&result("5")));
        assert!(is_unknown(&outcome(&super::CHECK, &whole().run())));
    }
}
