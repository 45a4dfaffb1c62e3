//! Outliers: whether one arm has far worse trials more often than the other, apart from their typical difference.
//!
//! A block that went wrong has the score zero, so that the verdict covers the typical shift only; a kernel that stalls
//! occasionally would pass. Here a trial is an outlier if it is worse than the median of the ten nearest trials of either
//! arm (without the arms' typical difference) by more than four deviations. Under "no difference", the outlier of a block
//! with one outlier is in either arm with probability one half (`McNemar` 1947, exact).

use record::metric::Direction;
use record::verdict::{Outliers, Pair};
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::average::{less, median};
use crate::contrast::{Contrasts, Kind};
use crate::score::scale;

/// Number of neighbouring trials.
const NEAR: usize = 10;

/// Number of deviations that make a trial an outlier.
const FAR: f64 = 4.0;

/// Counts the outliers of both arms; `None` if figures have no logarithm or are too few to know what is typical.
pub fn of(pairs: &[Pair], direction: Direction) -> Option<Outliers> {
    let contrasts = Contrasts::of(pairs, direction, 0.0)?;
    if contrasts.kind == Kind::Difference || 2 * pairs.len() <= NEAR {
        return None;
    }
    let sign = match direction {
        Direction::Higher => 1.0,
        Direction::Lower => -1.0,
    };
    let centre = median(&contrasts.values);
    // The typical difference is removed, or all trials of the slower arm would be outliers beside the faster one's.
    let in_order = |pair: &Pair| {
        let figures = [sign * pair.baseline.ln(), sign * pair.arm.ln() - centre];
        if pair.arm_first {
            [figures[1], figures[0]]
        } else {
            figures
        }
    };
    let trials: Vec<f64> = pairs.iter().flat_map(in_order).collect();
    let spread = less(&contrasts.values, centre);
    // A block's contrast has the noise of two trials.
    let far = FAR * scale(&spread) / 2f64.sqrt();
    let is_outlier = |trial: usize| trials[trial] < median(&nearest(&trials, trial)) - far;
    let (mut arm, mut baseline) = (0, 0);
    for (block, pair) in pairs.iter().enumerate() {
        match (is_outlier(2 * block), is_outlier(2 * block + 1)) {
            (true, false) | (false, true) => {
                let is_first = is_outlier(2 * block);
                let side = if is_first == pair.arm_first {
                    &mut arm
                } else {
                    &mut baseline
                };
                *side += 1;
            }
            (true, true) | (false, false) => {}
        }
    }
    Some(Outliers {
        arm,
        baseline,
        p_value: p_value(arm, baseline),
    })
}

/// The neighbours of a trial, without itself.
fn nearest(trials: &[f64], trial: usize) -> Vec<f64> {
    let first = trial.saturating_sub(NEAR / 2).min(trials.len() - NEAR - 1);
    let window = first..=first + NEAR;
    window
        .filter(|neighbour| *neighbour != trial)
        .map(|neighbour| trials[neighbour])
        .collect()
}

/// The exact two-sided p-value of a split of outliers between two arms.
fn p_value(first: u32, second: u32) -> f64 {
    let (all, fewer) = (u64::from(first + second), u64::from(first.min(second)));
    if all == 0 {
        return 1.0;
    }
    let split = Binomial::new(0.5, all).expect("a probability of one half");
    (2.0 * split.cdf(fewer)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    #[test]
    fn nine_against_one_has_the_p_value_of_the_reference() {
        close(p_value(9, 1), 0.021_48, 5);
        close(p_value(0, 0), 1.0, 9);
        close(p_value(3, 3), 1.0, 9);
    }

    #[test]
    fn stalls_of_one_arm_are_counted_where_the_typical_trial_is_the_same() {
        let pair = |block: u32| Pair {
            block,
            baseline: 100.0 + f64::from(block % 3),
            arm: if block.is_multiple_of(4) {
                60.0
            } else {
                101.0 + f64::from(block % 2)
            },
            arm_first: block % 5 < 2,
        };
        let pairs: Vec<Pair> = (1..=40).map(pair).collect();
        let outliers = of(&pairs, Direction::Higher).unwrap();
        assert_eq!((outliers.arm, outliers.baseline), (10, 0));
        assert!(outliers.p_value < 0.01);
        assert_eq!(of(&pairs[..5], Direction::Higher), None);
    }
}
