//! Is anything but static pages asked for?

use plan::Plan;
use record::verdict::fairness::{Declaration, Detail, Outcome};
use serde_json::Value;

use crate::{Check, Foreseen, Group, Judge};

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

/// Workloads that ask for files that never change.
const STATIC: [&str; 6] = [
    "web-static",
    "web-soak",
    "web-ramp",
    "web-many",
    "web-open",
    "accept",
];

fn static_pages(plan: &Plan) -> Outcome {
    if !plan.workloads.iter().all(is_static) {
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

fn is_static(workload: &plan::WorkloadPlan) -> bool {
    let dynamic = workload.options.get("dynamic").and_then(Value::as_f64);
    STATIC.contains(&workload.kind.as_str()) || workload.kind == "web-slow" && dynamic == Some(0.0)
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn nothing_but_static_pages_is_declared() {
        let told = |kind: &str| {
            let run = whole().with(|run| run.plan.workloads[0].kind = kind.into());
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_declared(&told("web-static")));
        assert_eq!(told("web-cgi"), Outcome::Pass);
        let of_slow_lines = |dynamic: f64| {
            let run = whole().with(|run| {
                run.plan.workloads[0].kind = "web-slow".into();
                run.plan.workloads[0].options = serde_json::json!({ "dynamic": dynamic });
            });
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_declared(&of_slow_lines(0.0)));
        assert_eq!(of_slow_lines(0.3), Outcome::Pass);
    }
}
