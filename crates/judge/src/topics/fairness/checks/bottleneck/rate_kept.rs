//! Does every arm keep up with the rate that clients fix?

use record::verdict::fairness::Quantity;
use record::verdict::finding::Kind;

use crate::topics::fairness::subject::beyond;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "rate-kept",
    group: Group::Bottleneck,
    question: "Does every arm keep up with the rate that clients fix?",
    reads: "growth of the requests under way in open loops",
    passes: "less than 1 % of the requests that are due",
    why: "A queue that grows makes latency a matter of how long the window is.",
    mend: "a lower `rate`",
    judge: Judge::Run(|subject| {
        subject.unless_found(|finding| match finding.kind {
            Kind::FallsBehind { growth_per_s, .. } => Some(beyond(
                (&finding.workload, &finding.arm),
                Quantity::BacklogGrowth,
                growth_per_s,
                0.0,
            )),
            _ => None,
        })
    }),
    foreseen: Foreseen::ByDisturbances,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_queue_that_grows_is_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let behind = Kind::FallsBehind {
            growth_per_s: 50.0,
            due_per_s: 500.0,
        };
        assert!(is_violation(&found(behind, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
    }
}
