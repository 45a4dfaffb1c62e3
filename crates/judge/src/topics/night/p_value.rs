//! The p-value of a verdict: the smallest level at which the rule would have reached it.
//!
//! ```text
//! test of a level   the rule's own at another error rate: the plan's looks and spending, boundaries from the plan's sign flips (`boundary`)
//! p                 half of the lowest level from which up to the rule's own all tests have rejected by now, on the verdict's side
//! ```
//! Where p is at or below half of a level, the test of that level has rejected at some look on that side, which it does with a chance of half of
//! that level if the arms are equal. So p is valid whenever, and for whatever reason, the run stopped (an always valid p-value; Johari, Pekelis
//! and Walsh 2015), and where ties keep the tests of several levels from being nested. What the rule calls worse has half of its error rate
//! at the most.
//!
//! One side: a list of regressions has nothing to do with gains. The arm's other side, and a verdict that is neither better nor worse, has
//! p = 1, which can only make a p-value larger. A run that was given more blocks spends more than its level (`looks`); its p-value
//! grows by as much.

use plan::{Claim, Design};
use record::rundir::Run;
use record::verdict::{Comparison, Verdict};

use crate::topics::nodes::find as nodes;
use stats::boundary::Boundary;
use stats::contrast::Contrasts;
use stats::looks;
use stats::rule::Series;
use stats::sequential_test::{Statistics, TestSetup};

/// Levels of a decade; a p-value belongs to the next one above the exact one.
const OF_DECADE: u32 = 24;

/// Decades. Of 20,000 sign flips fewer than one is left below.
const DECADES: u32 = 5;

/// How sure a verdict is that an arm is worse, or better: the p-values of both sides. The side that the verdict does not name has 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PValues {
    /// Of "not worse".
    pub worse: f64,
    /// Of "not better".
    pub better: f64,
}

/// The p-values of a primary metric of a run; whether it `has_secondary` metrics beside it, which share its error rate.
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
            of_series(series, comparison.verdict, design, (&key, has_secondary))
        }
    };
    let on = |side: Verdict| {
        if comparison.verdict == side {
            p_value
        } else {
            1.0
        }
    };
    PValues {
        worse: on(Verdict::Worse),
        better: on(Verdict::Better),
    }
}

/// Levels of both sides, the highest first: the rule's own.
pub(crate) fn levels(error_rate: f64) -> Vec<f64> {
    let steps = 0..OF_DECADE * DECADES;
    steps
        .map(|step| error_rate * 0.1f64.powf(f64::from(step) / f64::from(OF_DECADE)))
        .collect()
}

/// The p-value of one side: half of the smallest level down to which all levels reject; 1 where the highest does not.
pub(crate) fn smallest(levels: &[f64], rejects: impl Fn(usize) -> bool) -> f64 {
    let all = (0..levels.len()).take_while(|place| rejects(*place));
    all.last().map_or(1.0, |place| levels[place] / 2.0)
}

/// The p-value of one side; `key` names the comparison as it does for `rule::decide`.
pub(crate) fn of_series(
    series: Series<'_>,
    side: Verdict,
    design: &Design,
    (key, has_secondary): (&str, bool),
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
    // The side on which the test of each level has rejected.
    let mut rejected: Vec<Option<f64>> = vec![None; levels.len()];
    for look in &setup.looks {
        let statistics = Statistics::of(&contrasts.values, 0.0, &setup, look.blocks);
        let observed = statistics.observed;
        if observed == 0.0 {
            continue;
        }
        let uncounted = setup.flips.uncounted(look.blocks);
        for (place, level) in levels.iter().enumerate() {
            if rejected[place].is_none() {
                let spent = level * look.spent;
                let crossed = boundaries[place].look(
                    uncounted,
                    &statistics.of_flips,
                    &[observed.abs()],
                    spent,
                );
                rejected[place] = crossed[0].then(|| observed.signum());
            }
        }
    }
    let smallest = smallest(&levels, |place| rejected[place] == Some(sign));
    (smallest * looks::spent(design.most_blocks(), design).max(1.0)).min(1.0)
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
            margin: 0.01,
            error_rate,
            min_blocks: 4,
            max_blocks,
            more_blocks: 0,
            seed,
            arms: 0,
        }
    }

    fn series(pairs: &[Pair]) -> Series<'_> {
        Series {
            pairs,
            direction: Direction::Higher,
        }
    }

    /// A run to its end, and the p-value of "worse" at the block where it stopped.
    fn run(noise: Noise, effect: f64, design: &Design) -> (Verdict, usize, f64) {
        let pairs = pairs(noise, effect, design.max_blocks, (design.seed, 0));
        let decision = decisions_at_stop(&[series(&pairs)], design, "")[0];
        let (verdict, blocks) = decision.map_or((Verdict::Undecided, pairs.len()), |one| {
            (one.verdict, one.at_block)
        });
        let so_far = series(&pairs[..blocks]);
        let p_value = match verdict {
            Verdict::Worse => of_series(so_far, Verdict::Worse, design, ("", false)),
            Verdict::Better | Verdict::Equivalent | Verdict::Undecided => 1.0,
        };
        (verdict, blocks, p_value)
    }

    #[test]
    fn equal_arms_have_small_p_values_as_seldom_as_these_say() {
        small_p_values(0, 100);
    }

    #[test]
    #[ignore = "eight times the runs, another seed each time: make test-all"]
    fn many_equal_arms_have_small_p_values_as_seldom_as_these_say() {
        small_p_values(base::skip::seed(0), 800);
    }

    fn small_p_values(first: u64, runs: u64) {
        let mut below = [(0.1, 0), (0.05, 0), (0.02, 0), (0.01, 0)];
        for seed in first..first + runs {
            // Blocks that go on after the verdict, as for another arm's sake, so that p-values may become small.
            let design = design(0.2, 13, seed);
            let all = pairs(REFERENCE, 0.0, design.max_blocks, (seed, 0));
            let p_value = of_series(series(&all), Verdict::Worse, &design, ("", false));
            for (level, count) in &mut below {
                *count += u64::from(p_value <= *level);
            }
        }
        println!("p-values at or below levels, of {runs}: {below:?}");
        for (level, count) in below {
            assert!(count <= most(runs, level), "{level}: {count}");
            // Sign flips are few, so that not all of a level can be reached.
            assert!(count >= least(runs, 0.6 * level), "{level}: {count}");
        }
    }

    #[test]
    fn what_a_run_calls_worse_has_a_p_value_of_half_its_error_rate_or_less() {
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
        let pairs = pairs(QUIET, -0.03, 40, (3, 0));
        let after = |blocks: usize| {
            of_series(
                series(&pairs[..blocks]),
                Verdict::Worse,
                &design,
                ("", false),
            )
        };
        let all = [8, 12, 20, 40].map(after);
        assert!(all.is_sorted_by(|one, other| one >= other), "{all:?}");
        assert!(all[3] < 2e-3 && all[3] < all[0], "{all:?}");
        let better = of_series(series(&pairs), Verdict::Better, &design, ("", false));
        assert!((better - 1.0).abs() < 1e-12);
    }
}
