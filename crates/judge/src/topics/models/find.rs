//! Whether a run's verdicts stand on another emulated CPU.

use record::metric::Role;
use record::models::{Finding, ModelRow, Standing};
use record::verdict::{Comparison, Judgement, Verdict};

/// Share of a difference that may be another on a second model before the verdict is called the model's.
pub(crate) const MOST_MOVED: f64 = 0.75;

/// The rows of one other model: each primary comparison of the run beside that of the run on the other model.
/// `model` is what was varied, `dir` the other run's directory.
pub fn compare(own: &Judgement, other: &Judgement, model: &str, dir: &str) -> Vec<ModelRow> {
    let primary = |comparison: &&Comparison| comparison.spec.role == Role::Primary;
    let row = |comparison: &Comparison| {
        let is_same = |candidate: &&Comparison| {
            candidate.workload == comparison.workload
                && candidate.arm == comparison.arm
                && candidate.spec.name == comparison.spec.name
        };
        let varied = other.comparisons.iter().find(is_same)?;
        let moved = moved(comparison, varied);
        Some(ModelRow {
            model: model.into(),
            dir: dir.into(),
            workload: comparison.workload.clone(),
            metric: comparison.spec.name.clone(),
            arm: comparison.arm.clone(),
            own: finding(comparison),
            other: finding(varied),
            moved,
            standing: standing(comparison.verdict, varied.verdict, moved),
        })
    };
    let rows = own.comparisons.iter().filter(primary).filter_map(row);
    rows.collect()
}

fn finding(comparison: &Comparison) -> Finding {
    Finding {
        verdict: comparison.verdict,
        ratio: comparison.ratio,
        low: comparison.low,
        high: comparison.high,
        confidence: comparison.confidence,
        blocks: comparison.blocks,
    }
}

/// Share of the run's own difference, on the logarithm's scale, by which the other model's is another. An equivalent arm
/// has no difference of which there could be a share.
fn moved(own: &Comparison, other: &Comparison) -> Option<f64> {
    let difference = |comparison: &Comparison| {
        let ratio = comparison.ratio.filter(|ratio| *ratio > 0.0)?;
        Some(ratio.ln()).filter(|difference| difference.is_finite())
    };
    match own.verdict {
        Verdict::Better | Verdict::Worse => {
            let (own, other) = (difference(own)?, difference(other)?);
            let share = ((other - own) / own).abs();
            share.is_finite().then_some(share)
        }
        Verdict::Equivalent | Verdict::Undecided => None,
    }
}

fn standing(own: Verdict, other: Verdict, moved: Option<f64>) -> Standing {
    let is_moved = moved.is_some_and(|share| share > MOST_MOVED);
    match (own, other) {
        (Verdict::Undecided, _) => Standing::Open,
        // Too few blocks for a verdict may still show that the difference is another one.
        (_, Verdict::Undecided) if is_moved => Standing::ModelDependent,
        (_, Verdict::Undecided) => Standing::Open,
        (own, other) if own == other && !is_moved => Standing::Holds,
        (_, _) => Standing::ModelDependent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::RunBuilder;

    /// A quiet run of twelve blocks whose arm serves `ratio` times what the baseline does.
    fn judged(ratio: f64) -> Judgement {
        let block = |number: u32| {
            let wobble = 1.0 + f64::from(number * 7 % 5) * 1e-4;
            [1000.0, 1000.0 * ratio * wobble]
        };
        let blocks: Vec<[f64; 2]> = (1..=12).map(block).collect();
        crate::judge(&RunBuilder::new().blocks(&blocks).run())
    }

    /// The row of such a run beside another one on another model.
    fn row(own: f64, other: f64) -> ModelRow {
        let rows = compare(&judged(own), &judged(other), "EPYC", "epyc");
        assert_eq!(rows.len(), 1, "one workload, one arm, one primary metric");
        rows.into_iter().next().unwrap()
    }

    #[test]
    fn a_verdict_that_stays_with_most_of_its_difference_holds() {
        let row = row(1.17, 1.15);
        assert_eq!(
            (row.own.verdict, row.other.verdict),
            (Verdict::Better, Verdict::Better)
        );
        assert!((row.moved.unwrap() - 0.11).abs() < 0.01, "{:?}", row.moved);
        assert_eq!(row.standing, Standing::Holds);
    }

    #[test]
    fn a_difference_that_is_mostly_gone_or_doubled_is_the_models() {
        assert_eq!(row(1.30, 1.05).standing, Standing::ModelDependent);
        assert_eq!(row(1.10, 1.20).standing, Standing::ModelDependent);
    }

    #[test]
    fn another_verdict_is_the_models_however_small_the_step() {
        assert_eq!(row(1.05, 0.95).standing, Standing::ModelDependent);
        let row = row(1.0, 1.05);
        assert_eq!((row.own.verdict, row.moved), (Verdict::Equivalent, None));
        assert_eq!(row.standing, Standing::ModelDependent);
    }

    #[test]
    fn without_a_verdict_nothing_can_hold() {
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
