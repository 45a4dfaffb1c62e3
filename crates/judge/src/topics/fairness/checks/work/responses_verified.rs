//! Clients verify every response: its status, its length, its content, or a database's invariants.

use plan::{Plan, WorkloadPlan};
use record::verdict::fairness::{Detail, Outcome};

use crate::topics::fairness::subject::unless;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "responses-verified",
    group: Group::Work,
    must_hold: "Clients verify every response: its status, its length, its content, or a database's invariants.",
    why: "A server that sends error pages or shorter pages is the fastest of all.",
    mend: "Remove `content = false`, or write the length and SHA-256 of each response in a script.",
    reads: "the workloads' options",
    judge: Judge::Plan(responses_verified),
    foreseen: Foreseen::Nothing,
};

fn responses_verified(plan: &Plan) -> Outcome {
    let is_unchecked = |workload: &&WorkloadPlan| workload.traits.accepts_any_content;
    let detail = |workload: &WorkloadPlan| Detail::Workload {
        workload: workload.id.clone(),
    };
    unless(
        plan.workloads
            .iter()
            .filter(is_unchecked)
            .map(detail)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_workload_that_checks_nothing_is_found() {
        let of_traits = |accepts_any_content: bool| {
            let run = whole().with(|run| {
                run.plan.workloads[0].traits.accepts_any_content = accepts_any_content;
            });
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(of_traits(false), Outcome::Passed);
        assert!(is_failed(&of_traits(true)));
    }
}
