//! Is service measured at more than one load?

use plan::Plan;
use record::verdict::fairness::{Declaration, Detail, Outcome};
use serde_json::Value;

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "one-load",
    group: Group::Bottleneck,
    question: "Is service measured at more than one load?",
    reads: "kinds of the plan's workloads",
    passes: "a ramp is among the workloads, or the load is what users really send (a rate, users who think); declared where one number of connections is all",
    why: "Mindcraft 1999: the headline was one point beyond the other side's collapse; at half of the load the order was another.",
    mend: "add `web-ramp` or `smb-ramp`",
    judge: Judge::Plan(one_load),
    foreseen: Foreseen::Nothing,
};

/// Workloads in a closed loop at one number of connections.
const ONE_LOAD: [&str; 6] = ["web-static", "web-soak", "web-cgi", "accept", "smb", "http"];

/// Workloads with a curve over load.
const RAMPS: [&str; 2] = ["web-ramp", "smb-ramp"];

fn one_load(plan: &Plan) -> Outcome {
    let is_of = |kinds: &[&str], one: &plan::WorkloadPlan| kinds.contains(&one.kind.as_str());
    let is_one = |one: &&plan::WorkloadPlan| {
        is_of(&ONE_LOAD, one) && one.options.get("rate_per_s").is_none_or(Value::is_null)
    };
    let at_one: Vec<_> = plan.workloads.iter().filter(is_one).collect();
    if at_one.is_empty() || plan.workloads.iter().any(|one| is_of(&RAMPS, one)) {
        return Outcome::Pass;
    }
    let detail = |one: &plan::WorkloadPlan| Detail::Workload {
        workload: one.id.clone(),
    };
    Outcome::Declared {
        by: Declaration::Plan,
        details: at_one.into_iter().map(detail).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn one_number_of_connections_is_declared() {
        let told = |kind: &str| {
            let run = whole().with(|run| run.plan.workloads[0].kind = kind.into());
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_declared(&told("web-static")));
        assert_eq!(told("web-ramp"), Outcome::Pass);
        assert_eq!(told("web-browse"), Outcome::Pass);
    }
}
