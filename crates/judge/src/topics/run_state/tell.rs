//! Whether a run is over and why, in words.

use record::journal::CloseReason;
use record::rundir::Run;
use record::verdict::{Comparison, Judgement, Verdict};

/// Why a run ended: `decided after 4 blocks`.
pub fn close_reason(reason: &CloseReason) -> String {
    match reason {
        CloseReason::Decided { blocks } => {
            format!("decided after {}", crate::words::blocks(*blocks))
        }
        CloseReason::BlocksOfPlan { blocks } => {
            let blocks = crate::words::blocks(*blocks);
            format!("ended after {blocks}, the most that the plan allows")
        }
        CloseReason::BlocksGiven { blocks } => {
            let blocks = crate::words::blocks(*blocks);
            format!("ended after {blocks}, the most that it was given")
        }
        CloseReason::OneBlock { block } => format!("ended with block {block}, the only one here"),
        CloseReason::NoBaseline { trials } => {
            let trials = crate::words::counted(*trials, "trial");
            format!("the baseline gave no figure in {trials} in a row")
        }
        CloseReason::NoArm { trials } => {
            let trials = crate::words::counted(*trials, "trial");
            format!("no arm but the baseline gave a figure in {trials} in a row")
        }
    }
}

/// Whether the run is over, and why.
pub(crate) fn state(run: &Run, judgement: &Judgement) -> String {
    let Some(reason) = run.closed() else {
        return "not finished".into();
    };
    let reason = close_reason(reason);
    let is_open = |one: &&Comparison| one.verdict == Verdict::Undecided;
    let (all, open) = (
        judgement.primaries().count(),
        judgement.primaries().filter(is_open).count(),
    );
    let after = ["ended ", "decided "];
    match after.iter().find_map(|lead| reason.strip_prefix(lead)) {
        Some(after) if open > 0 => format!("finished {after}: {}", undecided_of(open, all)),
        Some(after) if all > 0 => format!("finished {after}: decided"),
        Some(_) | None => format!("finished: {reason}"),
    }
}

/// `undecided`, or how many of several verdicts are.
fn undecided_of(open: usize, all: usize) -> String {
    match (open, all) {
        (1, 1) => "undecided".into(),
        (open, all) => format!("{open} of {all} verdicts undecided"),
    }
}

#[cfg(test)]
mod tests {
    use record::fixtures::web;
    use record::journal::Event;

    use super::*;
    use crate::report::judged;

    #[test]
    fn a_run_of_undecided_verdicts_is_not_called_decided() {
        let (run, mut judgement) = judged(web::two_kernels());
        assert_eq!(state(&run, &judgement), "finished after 10 blocks: decided");
        let closed_by = |why: &CloseReason| {
            let mut early = run.clone();
            for entry in &mut early.entries {
                if let Event::Closed { reason } = &mut entry.event {
                    reason.clone_from(why);
                }
            }
            early
        };
        let plan = CloseReason::BlocksOfPlan { blocks: 4 };
        let decided = "finished after 4 blocks, the most that the plan allows: decided";
        assert_eq!(state(&closed_by(&plan), &judgement), decided);
        judgement.comparisons[0].verdict = Verdict::Undecided;
        let told = |reason| state(&closed_by(&reason), &judgement);
        assert_eq!(
            told(CloseReason::BlocksGiven { blocks: 6 }),
            "finished after 6 blocks, the most that it was given: undecided"
        );
        assert_eq!(
            told(CloseReason::NoBaseline { trials: 3 }),
            "finished: the baseline gave no figure in 3 trials in a row"
        );
        assert_eq!(
            told(CloseReason::NoArm { trials: 3 }),
            "finished: no arm but the baseline gave a figure in 3 trials in a row"
        );
    }
}
