//! Whether a run's verdicts hold on another emulated CPU.

use record::metric::Role;
use record::models::{ModelRow, ModelVerdict, Standing};
use record::verdict::{Comparison, Judgement, Verdict};

/// A verdict depends on the model if the difference changes by more than this share of itself.
pub(crate) const MOST_MOVED: f64 = 0.75;

/// Compares each primary comparison of a run with that of a run on another CPU model. `model` is the model's name, `dir` the other
/// run's directory.
pub fn compare(run: &Judgement, varied: &Judgement, model: &str, dir: &str) -> Vec<ModelRow> {
    let mut rows = Vec::new();
    for comparison in &run.comparisons {
        if comparison.spec.role != Role::Primary {
            continue;
        }
        let is_same = |candidate: &&Comparison| {
            candidate.workload == comparison.workload
                && candidate.arm == comparison.arm
                && candidate.spec.name == comparison.spec.name
        };
        let Some(other) = varied.comparisons.iter().find(is_same) else {
            continue;
        };
        let moved = moved(comparison, other);
        rows.push(ModelRow {
            model: model.into(),
            dir: dir.into(),
            workload: comparison.workload.clone(),
            metric: comparison.spec.name.clone(),
            arm: comparison.arm.clone(),
            own: finding(comparison),
            other: finding(other),
            moved,
            standing: standing(comparison.verdict, other.verdict, moved),
        });
    }
    rows
}

fn finding(comparison: &Comparison) -> ModelVerdict {
    ModelVerdict {
        verdict: comparison.verdict,
        ratio: comparison.ratio,
        low: comparison.low,
        high: comparison.high,
        confidence: comparison.confidence,
        blocks: comparison.blocks,
    }
}

/// Change of the difference on the other model, as a share of the run's difference; both are logarithms of ratios. `None` unless the
/// run's arm is better or worse.
fn moved(run: &Comparison, varied: &Comparison) -> Option<f64> {
    let difference = |comparison: &Comparison| {
        let ratio = comparison.ratio.filter(|ratio| *ratio > 0.0)?;
        Some(ratio.ln()).filter(|difference| difference.is_finite())
    };
    match run.verdict {
        Verdict::Better | Verdict::Worse => {
            let (run, varied) = (difference(run)?, difference(varied)?);
            let share = ((varied - run) / run).abs();
            share.is_finite().then_some(share)
        }
        Verdict::Equivalent | Verdict::Undecided => None,
    }
}

fn standing(run: Verdict, varied: Verdict, moved: Option<f64>) -> Standing {
    let is_moved = moved.is_some_and(|share| share > MOST_MOVED);
    match (run, varied) {
        (Verdict::Undecided, _) => Standing::Open,
        // Blocks that are too few for a verdict may still show that the difference changed.
        (_, Verdict::Undecided) if is_moved => Standing::ModelDependent,
        (_, Verdict::Undecided) => Standing::Open,
        (run, varied) if run == varied && !is_moved => Standing::Holds,
        (_, _) => Standing::ModelDependent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::RunBuilder;

    /// A run of twelve blocks with little noise, whose arm is `ratio` times as fast as the baseline.
    fn judged(ratio: f64) -> Judgement {
        let block = |number: u32| {
            let wobble = 1.0 + f64::from(number * 7 % 5) * 1e-4;
            [1000.0, 1000.0 * ratio * wobble]
        };
        let blocks: Vec<[f64; 2]> = (1..=12).map(block).collect();
        crate::judge(&RunBuilder::new().blocks(&blocks).run())
    }

    /// The row of a run and a run on another model, by their ratios.
    fn row(run: f64, varied: f64) -> ModelRow {
        let rows = compare(&judged(run), &judged(varied), "EPYC", "epyc");
        assert_eq!(rows.len(), 1, "one workload, one arm, one primary metric");
        rows.into_iter().next().unwrap()
    }

    #[test]
    fn a_verdict_holds_if_most_of_its_difference_remains() {
        let row = row(1.17, 1.15);
        assert_eq!(
            (row.own.verdict, row.other.verdict),
            (Verdict::Better, Verdict::Better)
        );
        assert!((row.moved.unwrap() - 0.11).abs() < 0.01, "{:?}", row.moved);
        assert_eq!(row.standing, Standing::Holds);
    }

    #[test]
    fn a_difference_that_is_mostly_gone_or_doubled_depends_on_the_model() {
        assert_eq!(row(1.30, 1.05).standing, Standing::ModelDependent);
        assert_eq!(row(1.10, 1.20).standing, Standing::ModelDependent);
    }

    #[test]
    fn another_verdict_depends_on_the_model() {
        assert_eq!(row(1.05, 0.95).standing, Standing::ModelDependent);
        let row = row(1.0, 1.05);
        assert_eq!((row.own.verdict, row.moved), (Verdict::Equivalent, None));
        assert_eq!(row.standing, Standing::ModelDependent);
    }

    #[test]
    fn an_undecided_verdict_is_open_unless_the_difference_changed() {
        for other in [Verdict::Better, Verdict::Equivalent, Verdict::Undecided] {
            assert_eq!(standing(Verdict::Undecided, other, None), Standing::Open);
        }
        assert_eq!(
            standing(Verdict::Better, Verdict::Undecided, Some(0.2)),
            Standing::Open
        );
        assert_eq!(
            standing(Verdict::Better, Verdict::Undecided, Some(0.9)),
            Standing::ModelDependent
        );
    }
}
