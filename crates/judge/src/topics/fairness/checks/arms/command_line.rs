//! All kernels boot with the same parameters, apart from those that the plan gives an arm.

use plan::{Arm, Plan};
use record::fact;
use record::verdict::fairness::Outcome;

use crate::topics::fairness::foreseen::{by_plan, differing};
use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "command-line",
    group: Group::Arms,
    must_hold: "All kernels boot with the same parameters, apart from those that the plan gives an arm.",
    why: "One parameter (`mem=`, `mitigations=`, `isolcpus=`) changes more than most patches.",
    mend: "Write the parameters into the arms' `cmdline`.",
    reads: "`/proc/cmdline`",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::System(foresee),
};

const FACTS: [Fact; 1] = [Fact::Must(fact::CMDLINE)];

fn foresee(plan: &Plan) -> Option<Outcome> {
    let parameters = |arm: &Arm| Some(arm.cmdline.clone()).filter(|line| !line.is_empty());
    Some(by_plan(vec![differing(
        plan,
        "kernel parameters",
        parameters,
    )?]))
}

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(&super::CHECK, "/proc/cmdline");
    }
}
