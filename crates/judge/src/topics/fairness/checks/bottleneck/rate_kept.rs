//! Every arm keeps up with a fixed rate: its queue grows by less than 1 % of the due requests.

use record::verdict::fairness::Quantity;
use record::verdict::finding::Kind;

use crate::topics::fairness::subject::beyond;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "rate-kept",
    group: Group::Bottleneck,
    must_hold: "Every arm keeps up with a fixed rate: its queue grows by less than 1 % of the due requests.",
    why: "If the queue grows, latency depends on the length of the window.",
    mend: "Lower the `rate`.",
    reads: "growth of the requests under way in open loops",
    judge: Judge::Run(|subject| {
        subject.unless_found(|finding| match finding.kind {
            Kind::FallsBehind { growth_per_s, .. } => Some(beyond(
                &finding.workload,
                &finding.arm,
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
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Passed);
        let behind = Kind::FallsBehind {
            growth_per_s: 50.0,
            due_per_s: 500.0,
        };
        assert!(is_failed(&found(behind, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
    }
}
