//! Stability: whether one arm has odd trials more often than the other, apart from how fast the typical ones are.
//!
//! The score of a block that went wrong is zero, so that the verdict is about the typical shift. A kernel that
//! stalls now and then would pass. Here a trial counts as odd when it is worse than the median of the ten trials
//! nearest to it, of whichever arm (the arms' typical difference taken off), by more than four deviations. Blocks with one odd trial are like coins: under
//! "no difference" it is either arm's with the same chance (`McNemar` 1947, exact).

use record::metric::Direction;
use record::verdict::{Pair, Stability};
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::contrast::{Contrasts, Kind};
use crate::score::{median, scale};

/// Trials that are near.
const NEAR: usize = 10;

/// Deviations that make a trial odd.
const FAR: f64 = 4.0;

/// Counts the odd trials of both arms; `None` where figures have no logarithm or are too few to know what is odd.
pub(crate) fn of(pairs: &[Pair], direction: Direction) -> Option<Stability> {
    let contrasts = Contrasts::of(pairs, direction, 0.0)?;
    if contrasts.kind == Kind::Difference || 2 * pairs.len() <= NEAR {
        return None;
    }
    let sign = match direction {
        Direction::Higher => 1.0,
        Direction::Lower => -1.0,
    };
    let centre = median(&contrasts.values);
    // Without the typical difference, or the slower arm's trials would all be odd beside the faster one's.
    let in_order = |pair: &Pair| {
        let figures = [sign * pair.baseline.ln(), sign * pair.arm.ln() - centre];
        if pair.arm_first {
            [figures[1], figures[0]]
        } else {
            figures
        }
    };
    let trials: Vec<f64> = pairs.iter().flat_map(in_order).collect();
    let spread: Vec<f64> = contrasts
        .values
        .iter()
        .map(|value| value - centre)
        .collect();
    // A block's contrast has the noise of two trials.
    let far = FAR * scale(&spread) / 2f64.sqrt();
    let is_odd = |trial: usize| trials[trial] < median(&nearest(&trials, trial)) - far;
    let (mut arm, mut baseline) = (0, 0);
    for (block, pair) in pairs.iter().enumerate() {
        match (is_odd(2 * block), is_odd(2 * block + 1)) {
            (true, false) | (false, true) => {
                let is_first = is_odd(2 * block);
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
    Some(Stability {
        arm,
        baseline,
        chance: chance(arm, baseline),
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

/// The chance that coins fall so unevenly or more: two-sided and exact.
pub(crate) fn chance(one: u32, other: u32) -> f64 {
    let (all, fewer) = (u64::from(one + other), u64::from(one.min(other)));
    if all == 0 {
        return 1.0;
    }
    let coins = Binomial::new(0.5, all).expect("a fair coin");
    (2.0 * coins.cdf(fewer)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    #[test]
    fn nine_against_one_has_the_chance_of_the_reference() {
        close(chance(9, 1), 0.021_48, 5);
        close(chance(0, 0), 1.0, 9);
        close(chance(3, 3), 1.0, 9);
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
        let stability = of(&pairs, Direction::Higher).unwrap();
        assert_eq!((stability.arm, stability.baseline), (10, 0));
        assert!(stability.chance < 0.01);
        assert_eq!(of(&pairs[..5], Direction::Higher), None);
    }
}
