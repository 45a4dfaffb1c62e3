//! The p-value of a verdict: the smallest level at which the rule would have reached it.
//!
//! ```text
//! test of a level   the rule at another error rate: the plan's interim analyses and spending, boundaries
//!                   from the plan's sign flips (`boundary`)
//! p                 half of the lowest level such that the tests of it and of all higher levels have rejected on the verdict's side
//! ```
//! If p is at most half of a level, the test of that level has rejected at some analysis on that side. With equal arms it does so
//! with a probability of half of that level. So p is valid whenever and for whatever reason the run stopped (an always valid
//! p-value; Johari, Pekelis and Walsh 2015), also if ties keep the tests of several levels from being nested. An arm that
//! the rule calls worse has p of at most half of the rule's error rate.
//!
//! P-values are one-sided: a list of regressions does not depend on gains. The other side, and a verdict that is neither better nor
//! worse, has p = 1, which is conservative. A run that was given more blocks spends more than its level (`interim`); its
//! p-value is larger by that factor.

use plan::{Claim, Design};
use record::rundir::Run;
use record::verdict::{Comparison, Verdict};

use crate::topics::nodes::find as nodes;
use stats::boundary::Boundary;
use stats::contrast::Contrasts;
use stats::interim;
use stats::rule::Series;
use stats::sequential_test::{Statistics, TestSetup};

/// Levels per decade; a p-value is rounded up to the next one.
const PER_DECADE: u32 = 24;

/// Decades of levels. Below, less than one of 20,000 sign flips is left.
const DECADES: u32 = 5;

/// The p-values of both sides of a verdict. The side that the verdict does not name has 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PValues {
    /// P-value of the hypothesis "not worse".
    pub worse: f64,
    /// P-value of the hypothesis "not better".
    pub better: f64,
}

/// The p-values of a primary metric of a run. If it `has_secondary` metrics, they share its error rate.
pub fn of(run: &Run, comparison: &Comparison, has_secondary: bool) -> PValues {
    let p_value = match (comparison.verdict, run.plan.claim) {
        (Verdict::Undecided | Verdict::Equivalent, _) => 1.0,
        (Verdict::Better | Verdict::Worse, Claim::Machines) => {
            nodes::p_value(run, comparison, has_secondary)
        }
        (Verdict::Better | Verdict::Worse, Claim::Nodes) => {
            let series = Series {
                pairs: &comparison.pairs,
                direction: comparison.spec.direction,
            };
            let key = format!("{}\n{}", comparison.workload, comparison.arm);
            let design = &run.plan.design;
            of_series(series, comparison.verdict, design, &key, has_secondary)
        }
    };
    let at = |side: Verdict| {
        if comparison.verdict == side {
            p_value
        } else {
            1.0
        }
    };
    PValues {
        worse: at(Verdict::Worse),
        better: at(Verdict::Better),
    }
}

/// Two-sided levels, descending from `error_rate`.
pub(crate) fn levels(error_rate: f64) -> Vec<f64> {
    let steps = 0..PER_DECADE * DECADES;
    steps
        .map(|step| error_rate * 0.1f64.powf(f64::from(step) / f64::from(PER_DECADE)))
        .collect()
}

/// Half of the smallest level down to which all levels reject; 1 if the highest level does not. `rejects` takes a level's index.
pub(crate) fn smallest(levels: &[f64], rejects: impl Fn(usize) -> bool) -> f64 {
    let rejecting = (0..levels.len()).take_while(|index| rejects(*index));
    rejecting.last().map_or(1.0, |index| levels[index] / 2.0)
}

/// The p-value of one side; `key` identifies the comparison as in `rule::decide`.
pub(crate) fn of_series(
    series: Series<'_>,
    side: Verdict,
    design: &Design,
    key: &str,
    has_secondary: bool,
) -> f64 {
    let sign = match side {
        Verdict::Better => 1.0,
        Verdict::Worse => -1.0,
        Verdict::Equivalent | Verdict::Undecided => return 1.0,
    };
    let Some(contrasts) = Contrasts::of(series.pairs, series.direction, design.margin) else {
        return 1.0;
    };
    let setup = TestSetup::new(series.pairs, design, key, has_secondary);
    let levels = levels(setup.error_rate);
    let mut boundaries = vec![Boundary::new(&setup.flips); levels.len()];
    // The sign of the side on which the test of each level has rejected.
    let mut rejected: Vec<Option<f64>> = vec![None; levels.len()];
    for analysis in &setup.analyses {
        let statistics = Statistics::of(&contrasts.values, 0.0, &setup, analysis.blocks);
        let observed = statistics.observed;
        if observed == 0.0 {
            continue;
        }
        let uncounted = setup.flips.uncounted(analysis.blocks);
        for (index, level) in levels.iter().enumerate() {
            if rejected[index].is_none() {
                let spent = level * analysis.spent;
                let crossed = boundaries[index].test(
                    uncounted,
                    &statistics.of_flips,
                    &[observed.abs()],
                    spent,
                );
                rejected[index] = crossed[0].then(|| observed.signum());
            }
        }
    }
    let smallest = smallest(&levels, |index| rejected[index] == Some(sign));
    (smallest * interim::spent(design.most_blocks(), design).max(1.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use record::metric::Direction;
    use record::verdict::Pair;

    use super::*;
    use stats::counts::{least, most};
    use stats::noise_models::{Noise, QUIET, REFERENCE, pairs};
    use stats::rule::decisions_at_stop;

    fn design(error_rate: f64, max_blocks: u32, seed: u64) -> Design {
        Design {
            error_rate,
            max_blocks,
            seed,
            ..Design::DEFAULTS
        }
    }

    fn series(pairs: &[Pair]) -> Series<'_> {
        Series {
            pairs,
            direction: Direction::Higher,
        }
    }

    /// The verdict of a run, the block at which it stopped, and the p-value of "worse" there.
    fn run(noise: Noise, effect: f64, design: &Design) -> (Verdict, usize, f64) {
        let pairs = pairs(noise, effect, design.max_blocks, design.seed, 0);
        let decision = decisions_at_stop(&[series(&pairs)], design, "")[0];
        let (verdict, blocks) = decision.map_or((Verdict::Undecided, pairs.len()), |decision| {
            (decision.verdict, decision.at_block)
        });
        let until_stop = series(&pairs[..blocks]);
        let p_value = match verdict {
            Verdict::Worse => of_series(until_stop, Verdict::Worse, design, "", false),
            Verdict::Better | Verdict::Equivalent | Verdict::Undecided => 1.0,
        };
        (verdict, blocks, p_value)
    }

    #[test]
    fn p_values_of_equal_arms_are_valid() {
        small_p_values(0, 100);
    }

    #[test]
    #[ignore = "eight times the runs, another seed each time: make test-all"]
    fn p_values_of_many_equal_arms_are_valid() {
        small_p_values(base::skip::seed(0), 800);
    }

    fn small_p_values(first: u64, runs: u64) {
        let mut below = [(0.1, 0), (0.05, 0), (0.02, 0), (0.01, 0)];
        for seed in first..first + runs {
            // Blocks continue after the verdict, as they do if another arm needs them, so that p-values become small.
            let design = design(0.2, 13, seed);
            let all = pairs(REFERENCE, 0.0, design.max_blocks, seed, 0);
            let p_value = of_series(series(&all), Verdict::Worse, &design, "", false);
            for (level, count) in &mut below {
                *count += u64::from(p_value <= *level);
            }
        }
        println!("p-values at or below levels, of {runs}: {below:?}");
        for (level, count) in below {
            assert!(count <= most(runs, level), "{level}: {count}");
            // A test of few sign flips cannot spend all of a level.
            assert!(count >= least(runs, 0.6 * level), "{level}: {count}");
        }
    }

    #[test]
    fn worse_arms_have_p_values_of_at_most_half_of_the_error_rate() {
        let mut worse = 0;
        for seed in 0..60 {
            let design = design(0.02, 14, seed);
            let (verdict, blocks, p_value) = run(QUIET, -0.03, &design);
            if verdict == Verdict::Worse {
                worse += 1;
                assert!(p_value <= 0.01 + 1e-12, "{p_value} after {blocks} blocks");
            }
        }
        assert!(worse > 40, "{worse}");
    }

    #[test]
    fn more_blocks_of_the_same_difference_make_it_smaller() {
        let design = design(0.05, 40, 3);
        let pairs = pairs(QUIET, -0.03, 40, 3, 0);
        let after =
            |blocks: usize| of_series(series(&pairs[..blocks]), Verdict::Worse, &design, "", false);
        let all = [8, 12, 20, 40].map(after);
        assert!(all.is_sorted_by(|a, b| a >= b), "{all:?}");
        assert!(all[3] < 2e-3 && all[3] < all[0], "{all:?}");
        let better = of_series(series(&pairs), Verdict::Better, &design, "", false);
        assert!((better - 1.0).abs() < 1e-12);
    }
}
