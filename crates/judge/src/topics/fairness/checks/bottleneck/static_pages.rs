//! Is anything but static pages asked for?

use plan::Plan;
use record::verdict::fairness::{Declaration, Detail, Outcome};

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "static-pages",
    group: Group::Bottleneck,
    question: "Is anything but static pages asked for?",
    reads: "kinds of the plan's workloads",
    passes: "another kind of work is measured too; declared where static pages are all",
    why: "Mindcraft 1999: only static pages that fit in memory were asked for, and the headline said \"web server\".",
    mend: "add `web-cgi`, `web-browse` or `database`, or let the title say static",
    judge: Judge::Plan(static_pages),
    foreseen: Foreseen::Nothing,
};

fn static_pages(plan: &Plan) -> Outcome {
    if !plan
        .workloads
        .iter()
        .all(|workload| workload.traits.is_static)
    {
        return Outcome::Pass;
    }
    let detail = |workload: &plan::WorkloadPlan| Detail::Workload {
        workload: workload.id.clone(),
    };
    Outcome::Declared {
        by: Declaration::Plan,
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
        assert!(is_declared(&of_traits(Traits::STATIC)));
        assert_eq!(of_traits(Traits::CLIENTS), Outcome::Pass);
    }
}
