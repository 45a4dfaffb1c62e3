//! No arm is slowed down on purpose.

use plan::{Arm, Plan};
use record::verdict::fairness::{AcceptedBy, Detail, Outcome};

use crate::topics::fairness::subject::kernels_differ;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "injected",
    group: Group::Arms,
    must_hold: "No arm is slowed down on purpose. A slowdown is accepted if all arms run one kernel.",
    why: "A known slowdown tests whether a comparison finds it. Beside another kernel it is a hidden handicap.",
    mend: "Remove `injected_slowdown` and `injected_cost`, or compare one kernel with itself.",
    reads: "`injected_slowdown` and `injected_cost` of the arms",
    judge: Judge::Plan(injected),
    foreseen: Foreseen::Nothing,
};

fn injected(plan: &Plan) -> Outcome {
    let is_slowed =
        |arm: &&Arm| arm.tuning.injected_slowdown > 0.0 || arm.tuning.injected_cost.is_some();
    let slowed = plan.arms.iter().filter(is_slowed);
    let detail = |arm: &Arm| Detail::Arm {
        workload: String::new(),
        arm: arm.name.clone(),
    };
    let details: Vec<Detail> = slowed.map(detail).collect();
    if details.is_empty() {
        return Outcome::Passed;
    }
    if kernels_differ(plan) {
        return Outcome::Failed { details };
    }
    Outcome::Accepted {
        by: AcceptedBy::Plan,
        details,
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use plan::InjectedCost;
    use record::rundir::Run;
    use record::verdict::fairness::Outcome;

    fn slow(run: &mut Run) {
        run.plan.arms[0].tuning.injected_slowdown = 0.1;
    }

    fn dear(run: &mut Run) {
        run.plan.arms[1].tuning.injected_cost = Some(InjectedCost {
            function: "schedule".into(),
            instructions: 100,
        });
    }

    #[test]
    fn an_arm_that_is_slowed_down_is_told() {
        let result = |change: fn(&mut Run)| outcome(&super::CHECK, &whole().with(change).run());
        assert_eq!(result(|_| {}), Outcome::Passed);
        assert!(is_failed(&result(slow)));
        assert!(is_failed(&result(dear)));
        let alone = whole().with(one_kernel).with(slow).run();
        assert!(is_accepted(&outcome(&super::CHECK, &alone)));
    }
}
