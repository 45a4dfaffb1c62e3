//! Pure statistics: design (trial order), compare, decide. No clock, no file, no network.

use record::plan::Plan;
use record::rundir::Run;
use record::verdict::Judgement;

/// The order of the arms in one block of one workload: names, first to last. Decided by the plan's seed alone.
pub fn order(plan: &Plan, workload: &str, block: u32) -> Vec<String> {
    let _ = (workload, block);
    plan.arms.iter().map(|arm| arm.name.clone()).collect()
}

/// All that can be said about a run, finished or not.
pub fn judge(run: &Run) -> Judgement {
    let _ = run;
    todo!()
}

/// Whether a workload's primary metric is decided for all arms, so that it needs no more blocks.
pub fn is_decided(judgement: &Judgement, workload: &str) -> bool {
    let _ = (judgement, workload);
    false
}
