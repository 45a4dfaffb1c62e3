//! Less than half of the blocks are run again.

use plan::{Clock, DisturbedBlocks, MachineKind, Plan};
use record::verdict::fairness::{AcceptedBy, Detail, Missing, Outcome, Quantity};
use record::verdict::finding::Kind;

use crate::topics::fairness::foreseen::by_plan;
use crate::topics::fairness::subject::{Subject, beyond, unknown, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "disturbed-blocks",
    group: Group::Measurement,
    must_hold: "Less than half of the blocks are run again. `disturbed_blocks = \"keep\"` is accepted with wall-clock time.",
    why: "The quiet blocks of a disturbed run are a selection, not a sample.",
    mend: "Use a quiet machine.",
    reads: "blocks that were run again because of steal, other programs or a slow host",
    judge: Judge::Run(disturbed_blocks),
    foreseen: Foreseen::Plan(foresee),
};

fn disturbed_blocks(subject: &Subject<'_>) -> Outcome {
    let run = subject.run;
    if run.opening.ns_per_instruction.is_none()
        && run.plan.disturbed_blocks == DisturbedBlocks::Keep
    {
        return Outcome::Accepted {
            by: AcceptedBy::Plan,
            details: vec![Detail::DisturbedBlocksKept],
        };
    }
    if !subject.all_are_measured() {
        return unknown(Missing::Trial);
    }
    let all = run.attempts.iter().map(|record| record.trial.block).max();
    let half = f64::from(all.unwrap_or(0)) / 2.0;
    let mut details = Vec::new();
    for finding in &subject.judgement.findings {
        if let Kind::DisturbedBlocks { blocks } = &finding.kind
            && blocks.len() as f64 > half
        {
            let count = blocks.len() as f64;
            details.push(beyond(
                &finding.workload,
                "",
                Quantity::DisturbedBlocks,
                count,
                half,
            ));
        }
    }
    unless(details)
}

/// With `clock = "auto"`, it is open whether a guest counts instructions.
fn foresee(plan: &Plan) -> Option<Outcome> {
    let is_kept = plan.disturbed_blocks == DisturbedBlocks::Keep;
    let is_wall = plan.machine.kind != MachineKind::Qemu || plan.machine.clock == Clock::Wall;
    (is_kept && is_wall).then(|| by_plan(vec![Detail::DisturbedBlocksKept]))
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use plan::DisturbedBlocks;
    use record::verdict::fairness::Outcome;
    use record::verdict::finding::{DisturbedBlock, Kind};

    #[test]
    fn a_machine_that_is_never_quiet_is_found() {
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Passed);
        let disturbed = |block| DisturbedBlock {
            block,
            disturbances: Vec::new(),
        };
        let blocks = (1..=4).map(disturbed).collect();
        let disturbed = Kind::DisturbedBlocks { blocks };
        assert!(is_failed(&found(disturbed, &super::CHECK)));
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }

    #[test]
    fn a_plan_that_keeps_disturbed_blocks_is_declared() {
        let kept = || whole().with(|run| run.plan.disturbed_blocks = DisturbedBlocks::Keep);
        assert!(is_accepted(&outcome(&super::CHECK, &kept().run())));
        let counted = kept().with(|run| run.opening.ns_per_instruction = Some(2));
        assert_eq!(outcome(&super::CHECK, &counted.run()), Outcome::Passed);
    }
}
