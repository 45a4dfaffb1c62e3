//! Change points: where a series of figures changes from one level to another.
//!
//! ```text
//! K = max |U_t|, U_t = sum over i <= t of (n + 1 - 2 R_i), R_i the rank of figure i       Pettitt 1979
//! p = the share of orders of the same figures with as large a K
//! ```
//! Without a change, figures are assumed independent and identically distributed, like the ratios of separate nights. All orders are
//! then equally likely, so the p-value is exact for few figures too. Pettitt's formula is conservative there. For 12 figures, six and
//! six apart, it gives 0.031, although only 2 of 924 orders are as extreme. Series within a trial are long and autocorrelated; they
//! use his formula with a correction. The parts before and after a change are searched in the same way. A level that rises and
//! returns may be missed.
//!
//! In a series without a change, a change is found with at most the probability of the error rate.

use crate::batches::centred;
use crate::design::keyed;
use crate::randomization;

/// Up to this many figures all orders are enumerated: 7! = 5040.
const MOST_ENUMERATED: usize = 7;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Number of figures before it.
    pub place: usize,
    /// Probability of so clear a change in a series, or part of one, without any.
    pub p_value: f64,
}

/// The fewest figures in which a change can be found at an error rate.
pub fn fewest(error_rate: f64) -> usize {
    // Two levels with half of the figures each; either may be the higher.
    let least = |count: usize| 2.0 / randomization::ways(count / 2, count - count / 2);
    let mut count = 4;
    while least(count) > error_rate {
        count += 1;
    }
    count
}

/// Number of orders that are drawn; `None` if all of them are enumerated.
fn drawn(count: usize, error_rate: f64) -> Option<usize> {
    // Orders take no memory, because none is kept.
    (count > MOST_ENUMERATED).then(|| randomization::resampled(0, error_rate))
}

/// The changes of a series, in order.
pub fn change_points(values: &[f64], error_rate: f64) -> Vec<ChangePoint> {
    segmented(values, &|part| clearest(part, error_rate))
}

/// The changes of a series, in order. `clearest` returns the clearest change of a part as the number of figures before it and
/// its p-value, or `None` if none is significant.
pub fn segmented(
    values: &[f64],
    clearest: &impl Fn(&[f64]) -> Option<(usize, f64)>,
) -> Vec<ChangePoint> {
    let Some((place, p_value)) = clearest(values) else {
        return Vec::new();
    };
    let (before, after) = values.split_at(place);
    let mut changes = segmented(before, clearest);
    changes.push(ChangePoint { place, p_value });
    let later = segmented(after, clearest).into_iter();
    changes.extend(later.map(|change| ChangePoint {
        place: place + change.place,
        ..change
    }));
    changes
}

fn clearest(values: &[f64], error_rate: f64) -> Option<(usize, f64)> {
    if values.len() < fewest(error_rate) {
        return None;
    }
    let weights = rank_weights(values);
    let observed = statistic(&weights);
    if observed == 0.0 {
        return None;
    }
    let p_value = p_value(weights, observed, drawn(values.len(), error_rate));
    (p_value <= error_rate).then(|| (two_levels(values, 1), p_value))
}

/// The place where two levels fit best by absolute residuals, with at least `side` figures on each side. The place of the
/// largest rank sum is biased towards the middle.
pub fn two_levels(values: &[f64], side: usize) -> usize {
    let residual = |part: &[f64]| centred(part).iter().map(|rest| rest.abs()).sum::<f64>();
    let mut best = (side, f64::INFINITY);
    for place in side..=values.len() - side {
        let (before, after) = values.split_at(place);
        let rest = residual(before) + residual(after);
        if rest < best.1 {
            best = (place, rest);
        }
    }
    best.0
}

/// For each figure, how many are larger minus how many are smaller: n + 1 - 2 R.
pub fn rank_weights(values: &[f64]) -> Vec<f64> {
    let sign =
        |value: f64, other: f64| f64::from(i8::from(other > value) - i8::from(other < value));
    let weight = |value: &f64| values.iter().map(|other| sign(*value, *other)).sum();
    values.iter().map(weight).collect()
}

/// Pettitt's K.
fn statistic(weights: &[f64]) -> f64 {
    let (mut sum, mut largest) = (0.0_f64, 0.0_f64);
    for weight in &weights[..weights.len() - 1] {
        sum += weight;
        largest = largest.max(sum.abs());
    }
    largest
}

fn p_value(mut weights: Vec<f64>, observed: f64, drawn: Option<usize>) -> f64 {
    let count_if_extreme = |order: &[f64]| usize::from(statistic(order) >= observed - 1e-9);
    let Some(drawn) = drawn else {
        let (mut extreme, mut all) = (0, 0);
        permute(&mut weights, 0, &mut |order| {
            extreme += count_if_extreme(order);
            all += 1;
        });
        return extreme as f64 / f64::from(all);
    };
    let mut prng = keyed(&format!("change points\n{}", weights.len()));
    let mut extreme = 0;
    for _ in 0..drawn {
        for last in (1..weights.len()).rev() {
            weights.swap(last, prng.below(last as u64 + 1) as usize);
        }
        extreme += count_if_extreme(&weights);
    }
    // The observed order is one of all.
    (extreme + 1) as f64 / (drawn + 1) as f64
}

/// Calls `visit` with each order of the values.
fn permute(values: &mut [f64], from: usize, visit: &mut impl FnMut(&[f64])) {
    if from == values.len() {
        visit(values);
        return;
    }
    for place in from..values.len() {
        values.swap(from, place);
        permute(values, from + 1, visit);
        values.swap(from, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, count: usize) -> Vec<f64> {
        let mut prng = keyed(&format!("series {seed}"));
        let mut even = || prng.bits() as f64 / u64::MAX as f64;
        (0..count)
            .map(|_| 1.0 + 0.01 * (even() + even() - 1.0))
            .collect()
    }

    #[test]
    fn a_step_is_found_at_its_place() {
        let mut values = noise(1, 14);
        for value in &mut values[8..] {
            *value *= 0.95;
        }
        let changes = change_points(&values, 0.05);
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert!(
            changes[0].place == 8 && changes[0].p_value < 0.001,
            "{changes:?}"
        );
    }

    #[test]
    fn two_steps_are_found_one_after_the_other() {
        let mut values = noise(2, 30);
        for (place, value) in values.iter_mut().enumerate() {
            *value *= 1.0 + 0.05 * (place / 10) as f64;
        }
        let places: Vec<usize> = change_points(&values, 0.05)
            .iter()
            .map(|change| change.place)
            .collect();
        assert_eq!(places, [10, 20]);
    }

    #[test]
    fn a_series_without_a_change_shows_one_as_seldom_as_promised() {
        without_a_change(0, 200);
    }

    #[test]
    #[ignore = "ten times the series, another seed each time: make test-all"]
    fn many_series_without_a_change_show_one_as_seldom_as_promised() {
        without_a_change(base::skip::seed(0), 2000);
    }

    fn without_a_change(first: u64, all: u64) {
        for length in [7, 8, 12, 30] {
            let mut any = 0;
            for seed in first..first + all {
                any += u64::from(!change_points(&noise(seed, length), 0.05).is_empty());
            }
            println!("series of {length} without a change that showed one: {any} of {all}");
            assert!(any <= crate::counts::most(all, 0.05), "{length}: {any}");
        }
    }

    #[test]
    fn so_many_figures_can_show_a_change() {
        for (error_rate, count) in [(0.05, 8), (0.01, 10), (0.0025, 12), (0.000_000_1, 27)] {
            assert_eq!(fewest(error_rate), count);
        }
        let clear: Vec<f64> = (0..8)
            .map(|at| if at < 4 { 1.0 } else { 2.0 } + f64::from(at) * 1e-3)
            .collect();
        assert_eq!(change_points(&clear, 0.05).len(), 1);
        assert!(change_points(&clear[..7], 0.05).is_empty());
        assert!(change_points(&[1.0; 20], 0.05).is_empty());
    }

    #[test]
    fn a_low_error_rate_has_as_many_orders_as_it_needs() {
        // 2 of 2,704,156 ways are as far, and the order that was seen is one of 200,001.
        let clear: Vec<f64> = (0..24).map(|at| f64::from(at / 12)).collect();
        assert_eq!(change_points(&clear, 0.000_02).len(), 1);
    }
}
