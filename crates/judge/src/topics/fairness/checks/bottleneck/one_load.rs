//! The plan measures more than one load, or a realistic one: a rate, or users with think time.

use plan::Plan;
use record::verdict::fairness::{AcceptedBy, Detail, Outcome};
use serde_json::Value;

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "one-load",
    group: Group::Bottleneck,
    must_hold: "The plan measures more than one load, or a realistic one: a rate, or users with think time. One number of connections alone is accepted.",
    why: "Mindcraft 1999: the headline was one point beyond the other side's collapse. At half the load the order was different.",
    mend: "Add `web-ramp` or `smb-ramp`.",
    reads: "kinds of the plan's workloads",
    judge: Judge::Plan(one_load),
    foreseen: Foreseen::Nothing,
};

/// Workloads in a closed loop at one number of connections.
const ONE_LOAD: [&str; 6] = ["web-static", "web-soak", "web-cgi", "accept", "smb", "http"];

/// Workloads with a curve over load.
const RAMPS: [&str; 2] = ["web-ramp", "smb-ramp"];

fn one_load(plan: &Plan) -> Outcome {
    let is_of =
        |kinds: &[&str], workload: &plan::WorkloadPlan| kinds.contains(&workload.kind.as_str());
    let has_one_load = |workload: &&plan::WorkloadPlan| {
        is_of(&ONE_LOAD, workload)
            && workload
                .options
                .get("rate_per_s")
                .is_none_or(Value::is_null)
    };
    let at_one: Vec<_> = plan.workloads.iter().filter(has_one_load).collect();
    if at_one.is_empty()
        || plan
            .workloads
            .iter()
            .any(|workload| is_of(&RAMPS, workload))
    {
        return Outcome::Passed;
    }
    let detail = |workload: &plan::WorkloadPlan| Detail::Workload {
        workload: workload.id.clone(),
    };
    Outcome::Accepted {
        by: AcceptedBy::Plan,
        details: at_one.into_iter().map(detail).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn one_number_of_connections_is_declared() {
        let result = |kind: &str| {
            let run = whole().with(|run| run.plan.workloads[0].kind = kind.into());
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_accepted(&result("web-static")));
        assert_eq!(result("web-ramp"), Outcome::Passed);
        assert_eq!(result("web-browse"), Outcome::Passed);
    }
}
