//! In closed loops the server is busy: less than 10 % of CPU time is idle.

use record::verdict::fairness::{Outcome, Quantity};
use record::verdict::limit::Limit;

use crate::topics::fairness::subject::{Subject, limited, limits_are_known, of_system, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-stressed",
    group: Group::Bottleneck,
    must_hold: "In closed loops the server is busy: less than 10 % of CPU time is idle.",
    why: "A server that waits for its clients is as fast as they are, in every arm.",
    mend: "Use more connections, or a rate if latency is the question.",
    reads: "idle CPU time in the window of closed loops",
    judge: Judge::Run(server_stressed),
    foreseen: Foreseen::ByDisturbances,
};

fn server_stressed(subject: &Subject<'_>) -> Outcome {
    let details = limited(subject, Limit::NotSaturated);
    if !details.is_empty() || limits_are_known(subject) {
        return unless(details);
    }
    of_system(subject, Quantity::IdleCpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_server_is_found() {
        crate::topics::fairness::tests::system_quantity_is_watched(&CHECK, Quantity::IdleCpu);
        let result = |limit| crate::topics::fairness::tests::limited_by(&CHECK, limit);
        assert!(crate::topics::fairness::tests::is_failed(&result(
            Limit::NotSaturated
        )));
        assert_eq!(result(Limit::Server), Outcome::Passed);
    }
}
