//! Outliers: whether one arm has far worse trials more often than the other, apart from how fast the typical ones are.
//!
//! The score of a block that went wrong is zero, so that the verdict is about the typical shift. A kernel that stalls now and
//! then would pass. Here a trial is an outlier when it is worse than the median of the ten trials nearest to it, of whichever
//! arm (the arms' typical difference taken off), by more than four deviations. Under "no difference" a block with one outlier
//! has it in either arm with probability one half (`McNemar` 1947, exact).

use record::metric::Direction;
use record::verdict::{Outliers, Pair};
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::average::{less, median};
use crate::contrast::{Contrasts, Kind};
use crate::score::scale;

/// Trials that are near.
const NEAR: usize = 10;

/// Deviations that make a trial an outlier.
const FAR: f64 = 4.0;

/// Counts the outliers of both arms; `None` where figures have no logarithm or are too few to know what is typical.
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
    // Without the typical difference, or the slower arm's trials would all be outliers beside the faster one's.
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

/// The trials next to one, itself left out.
fn nearest(trials: &[f64], trial: usize) -> Vec<f64> {
    let first = trial.saturating_sub(NEAR / 2).min(trials.len() - NEAR - 1);
    let window = first..=first + NEAR;
    window
        .filter(|near| *near != trial)
        .map(|near| trials[near])
        .collect()
}

/// The exact two-sided p-value of so uneven a split.
fn p_value(one: u32, other: u32) -> f64 {
    let (all, fewer) = (u64::from(one + other), u64::from(one.min(other)));
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
