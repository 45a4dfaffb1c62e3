//! Calibration of a machine by its earlier A/A runs, which the run has a copy of.

use record::a_a::PastRun;
use record::rundir::Run;
use record::verdict::host::History;

use stats::eprocess;
use stats::eprocess::{Calibration, FAILED};

/// The A/A history of the run's machine.
pub(crate) fn of(run: &Run) -> History {
    match &run.history {
        None => History::NotKnown,
        Some(history) if history.runs.is_empty() => History::None,
        Some(history) => judged(&history.runs),
    }
}

fn judged(runs: &[PastRun]) -> History {
    let contrasts = runs.iter().flat_map(|run| &run.contrasts).copied();
    let contrasts: Vec<f64> = contrasts.filter(|contrast| contrast.is_finite()).collect();
    let ended: Vec<(bool, f64)> = runs
        .iter()
        .map(|run| (run.ended.told_apart, run.ended.error_rate))
        .collect();
    let e_value = eprocess::rejections(&ended);
    let of_blocks = match eprocess::calibration(&contrasts) {
        Calibration::Passed(evidence) => evidence,
        Calibration::Failed(_) => FAILED,
    };
    History::Known {
        runs: runs.len() as u32,
        blocks: contrasts.len() as u32,
        told_apart: ended.iter().filter(|(told_apart, _)| *told_apart).count() as u32,
        e_value: e_value.now,
        e_value_of_blocks: of_blocks,
        has_failed: e_value.most >= FAILED || of_blocks >= FAILED,
    }
}

#[cfg(test)]
mod tests {
    use record::a_a;
    use record::a_a::Ended;

    use super::*;
    use record::fixtures::builder::RunBuilder;

    fn past(told_apart: bool, contrasts: &[f64]) -> PastRun {
        let ended = Ended {
            told_apart,
            error_rate: 0.05,
            seed: 1,
        };
        PastRun {
            id: "2026-01-01T00:00:00Z web".into(),
            contrasts: contrasts.into(),
            ended,
        }
    }

    fn history(runs: Vec<PastRun>) -> History {
        let history = a_a::History {
            version: a_a::VERSION,
            runs,
        };
        of(&RunBuilder::new()
            .with(|run| run.history = Some(history))
            .run())
    }

    const EVEN: [f64; 4] = [0.01, -0.01, -0.01, 0.01];

    #[test]
    fn a_run_without_a_history_is_not_calibrated() {
        assert_eq!(of(&RunBuilder::new().run()), History::NotKnown);
        assert_eq!(history(Vec::new()), History::None);
    }

    #[test]
    fn a_machine_with_seven_good_runs_passes() {
        let History::Known {
            runs,
            blocks,
            told_apart,
            e_value,
            has_failed,
            ..
        } = history(vec![past(false, &EVEN); 7])
        else {
            panic!("known")
        };
        assert_eq!((runs, blocks, told_apart, has_failed), (7, 28, 0, false));
        assert!(e_value < 1.0, "{e_value}");
    }

    #[test]
    fn a_machine_with_several_wrong_verdicts_or_a_favoured_arm_fails() {
        let with_wrong = |wrong: u32| history((0..6).map(|run| past(run < wrong, &EVEN)).collect());
        let has_failed = |history: &History| {
            let History::Known { has_failed, .. } = history else {
                panic!("{history:?}");
            };
            *has_failed
        };
        let (one, four) = (with_wrong(1), with_wrong(4));
        assert!(!has_failed(&one) && has_failed(&four), "{one:?} {four:?}");
        // All blocks favour the same arm, but each run has too few blocks for a verdict.
        let favoured = history(vec![past(false, &[0.02, 0.021, 0.019, 0.02]); 12]);
        assert!(has_failed(&favoured), "{favoured:?}");
    }
}
