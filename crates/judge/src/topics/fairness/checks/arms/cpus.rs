//! All arms have the same number of CPUs, unless the plan gives an arm another number.

use plan::{Arm, Plan};
use record::fact;
use record::verdict::fairness::Outcome;

use crate::topics::fairness::foreseen::{by_plan, differing, parameter, words};
use crate::topics::fairness::{Cause, Check, Fact, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "cpus",
    group: Group::Arms,
    must_hold: "All arms have the same number of CPUs, unless the plan gives an arm another number.",
    why: "A kernel may start one CPU less than the other. A forgotten `maxcpus=` does the same.",
    mend: "Set `cpus` of the machine, or of an arm if that is the question.",
    reads: "CPUs online, CPUs that servers may use",
    judge: Judge::Equal(&FACTS, Cause::None),
    foreseen: Foreseen::System(foresee),
};

const FACTS: [Fact; 4] = [
    Fact::May("cpus"),
    Fact::Must(fact::CPU_COUNT),
    Fact::Must(fact::CPUS_ONLINE),
    Fact::May(fact::CPUS_ISOLATED),
];

fn foresee(plan: &Plan) -> Option<Outcome> {
    let cpus_of = |arm: &Arm| plan.cpus(arm).map(|cpus| cpus.to_string());
    let given = differing(plan, "CPUs", cpus_of);
    let taken = |arm: &Arm| {
        let most = ["maxcpus", "nr_cpus"].map(|name| parameter(arm, name)?.parse::<u32>().ok());
        let none = words(arm).any(|word| word == "nosmp").then_some(0);
        let cpus = plan.cpus(arm)?;
        // `maxcpus=0` and `nosmp` leave one.
        let most = most.into_iter().chain([none]).flatten().min()?.max(1);
        (most < cpus).then(|| most.to_string())
    };
    let taken = differing(plan, "CPUs that parameters leave", taken);
    let isolated = differing(plan, "isolcpus= of the command line", |arm| {
        parameter(arm, "isolcpus").map(String::from)
    });
    match (given, taken.or(isolated)) {
        (Some(given), _) => Some(by_plan(vec![given])),
        (None, Some(taken)) => Some(Outcome::Failed {
            details: vec![taken],
        }),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn arms_must_agree() {
        crate::topics::fairness::tests::arms_must_agree(
            &super::CHECK,
            "/sys/devices/system/cpu/online",
        );
    }
}
