//! Is the content of responses verified?

use plan::{Plan, WorkloadPlan};
use record::verdict::fairness::{Detail, Outcome};
use serde_json::Value;

use crate::subject::unless;
use crate::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "responses-verified",
    group: Group::Work,
    question: "Is the content of responses verified?",
    reads: "the workloads' options",
    passes: "each response is compared with what it must be: status, length, content, or a database's invariants",
    why: "A server that answers with an error page, or sheds load by shorter pages, is the fastest of all.",
    mend: "take `content = false` out",
    judge: Judge::Plan(responses_verified),
    foreseen: Foreseen::Nothing,
};

fn responses_verified(plan: &Plan) -> Outcome {
    let is_unchecked = |one: &&WorkloadPlan| {
        let content = one.options.get("content").and_then(Value::as_bool);
        one.kind == "http" && content == Some(false)
    };
    let detail = |one: &WorkloadPlan| Detail::Workload {
        workload: one.id.clone(),
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
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_workload_that_checks_nothing_is_found() {
        let told = |content: bool| {
            let run = whole().with(|run| {
                run.plan.workloads[0].kind = "http".into();
                run.plan.workloads[0].options = serde_json::json!({ "content": content });
            });
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(told(true), Outcome::Pass);
        assert!(is_violation(&told(false)));
    }
}
