//! Whether a run is over and why, in words.

use record::journal::CloseReason;
use record::rundir::Run;
use record::verdict::{Judgement, Verdict};

use crate::words::{blocks as count_blocks, counted};

/// Why a run ended: `decided after 4 blocks`.
pub fn close_reason(reason: &CloseReason) -> String {
    match reason {
        CloseReason::Decided { blocks } => {
            format!("decided after {}", count_blocks(*blocks))
        }
        CloseReason::BlocksOfPlan { blocks } => {
            let blocks = count_blocks(*blocks);
            format!("ended after {blocks}, the most that the plan allows")
        }
        CloseReason::BlocksGiven { blocks } => {
            let blocks = count_blocks(*blocks);
            format!("ended after {blocks}, the most that it was given")
        }
        CloseReason::OneBlock { block } => format!("ended with block {block}, the only one here"),
        CloseReason::NoBaseline { trials } => {
            let trials = counted(*trials, "trial");
            format!("the baseline gave no figure in {trials} in a row")
        }
        CloseReason::NoArm { trials } => {
            let trials = counted(*trials, "trial");
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
    let all = judgement.primaries().count();
    let undecided = judgement
        .primaries()
        .filter(|comparison| comparison.verdict == Verdict::Undecided)
        .count();
    let verbs = ["ended ", "decided "];
    match verbs.iter().find_map(|verb| reason.strip_prefix(verb)) {
        Some(after) if undecided == 1 && all == 1 => format!("finished {after}: undecided"),
        Some(after) if undecided > 0 => {
            format!("finished {after}: {undecided} of {all} verdicts undecided")
        }
        Some(after) if all > 0 => format!("finished {after}: decided"),
        Some(_) | None => format!("finished: {reason}"),
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
        let closed_by = |close_reason: &CloseReason| {
            let mut closed = run.clone();
            for entry in &mut closed.entries {
                if let Event::Closed { reason } = &mut entry.event {
                    reason.clone_from(close_reason);
                }
            }
            closed
        };
        let plan = CloseReason::BlocksOfPlan { blocks: 4 };
        let decided = "finished after 4 blocks, the most that the plan allows: decided";
        assert_eq!(state(&closed_by(&plan), &judgement), decided);
        judgement.comparisons[0].verdict = Verdict::Undecided;
        let state_after = |reason| state(&closed_by(&reason), &judgement);
        assert_eq!(
            state_after(CloseReason::BlocksGiven { blocks: 6 }),
            "finished after 6 blocks, the most that it was given: undecided"
        );
        assert_eq!(
            state_after(CloseReason::NoBaseline { trials: 3 }),
            "finished: the baseline gave no figure in 3 trials in a row"
        );
        assert_eq!(
            state_after(CloseReason::NoArm { trials: 3 }),
            "finished: no arm but the baseline gave a figure in 3 trials in a row"
        );
    }
}
