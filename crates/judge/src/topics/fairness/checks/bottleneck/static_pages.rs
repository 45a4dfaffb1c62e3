//! The plan measures more than static pages.

use plan::Plan;
use record::verdict::fairness::{AcceptedBy, Detail, Outcome};

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "static-pages",
    group: Group::Bottleneck,
    must_hold: "The plan measures more than static pages. Static pages alone are accepted.",
    why: "Mindcraft 1999 requested only static pages that fit in memory. Its headline claimed \"web server\".",
    mend: "Add `web-cgi`, `web-browse` or `database`, or put \"static\" into the title.",
    reads: "kinds of the plan's workloads",
    judge: Judge::Plan(static_pages),
    foreseen: Foreseen::Nothing,
};

fn static_pages(plan: &Plan) -> Outcome {
    if !plan
        .workloads
        .iter()
        .all(|workload| workload.traits.is_static)
    {
        return Outcome::Passed;
    }
    let detail = |workload: &plan::WorkloadPlan| Detail::Workload {
        workload: workload.id.clone(),
    };
    Outcome::Accepted {
        by: AcceptedBy::Plan,
        details: plan.workloads.iter().map(detail).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use plan::Traits;
    use record::verdict::fairness::Outcome;

    #[test]
    fn nothing_but_static_pages_is_declared() {
        let of_traits = |traits: Traits| {
            let run = whole().with(|run| run.plan.workloads[0].traits = traits);
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_accepted(&of_traits(Traits::STATIC)));
        assert_eq!(of_traits(Traits::CLIENTS), Outcome::Passed);
    }
}
