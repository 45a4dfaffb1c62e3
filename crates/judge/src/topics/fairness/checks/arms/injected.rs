//! Is an arm slowed down on purpose?

use plan::{Arm, Plan};
use record::verdict::fairness::{Declaration, Detail, Outcome};

use crate::topics::fairness::subject::kernels_differ;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "injected",
    group: Group::Arms,
    question: "Is an arm slowed down on purpose?",
    reads: "the arms' `injected_slowdown` and `injected_cost`",
    passes: "no arm is; declared where kernels are the same, so that nothing else is compared",
    why: "A slow-down whose size is known tests whether a comparison finds it. Beside another kernel it is a handicap that no figure shows.",
    mend: "take `injected_slowdown` and `injected_cost` out, or compare one kernel with itself",
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
        return Outcome::Pass;
    }
    if kernels_differ(plan) {
        return Outcome::Violation { details };
    }
    Outcome::Declared {
        by: Declaration::Plan,
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
        let told = |change: fn(&mut Run)| outcome(&super::CHECK, &whole().with(change).run());
        assert_eq!(told(|_| {}), Outcome::Pass);
        assert!(is_violation(&told(slow)));
        assert!(is_violation(&told(dear)));
        let alone = whole().with(one_kernel).with(slow).run();
        assert!(is_declared(&outcome(&super::CHECK, &alone)));
    }
}
