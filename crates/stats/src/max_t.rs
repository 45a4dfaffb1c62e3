//! Which of many differences are more than chance: the step-down maxT test under randomization.
//!
//! ```text
//! T_j = |sum d_ij| / sqrt(sum d_ij^2)      d_ij: block i's difference of row j; the divisor ignores signs
//! p_j = share of sign flips in which any row with T no larger than T_j reaches T_j, and at least that of
//!       larger rows                          step-down maxT: Westfall and Young 1993, algorithm 4.1
//! ```
//! All rows of a block have the same flips, so rows may depend on each other in any way. For trials in two groups without
//! blocks, the statistic sums one group's values minus the overall mean, and draws of such a group replace sign flips.

use crate::average::mean;
use crate::inversion::{Search, interval as invert};
use crate::randomization::{Draws, SignFlips};
use crate::score::scale;

/// How the interval is searched for.
const SEARCH: Search = Search {
    tries: 17,
    halvings: 24,
};

/// Statistics that differ by less count as equal.
const TIE: f64 = 1e-9;

/// The p-value of each row, adjusted for all rows. Every row has a value per block, or per trial.
pub fn p_values(rows: &[&[f64]], draws: &impl Draws) -> Vec<f64> {
    let Some(columns) = rows.first().map(|row| row.len()) else {
        return Vec::new();
    };
    let observed = draws.uncounted(columns);
    let all = (draws.rows() + observed) as f64;
    let statistics: Vec<f64> = rows
        .iter()
        .map(|row| draws.seen(row).abs() / root(row))
        .collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| statistics[*a].total_cmp(&statistics[*b]));
    let mut largest = vec![0.0f64; draws.rows()];
    let mut p_values = vec![1.0; rows.len()];
    for index in &order {
        let divisor = root(rows[*index]);
        let least = statistics[*index] - TIE;
        let mut as_extreme = 0;
        for (largest, sum) in largest.iter_mut().zip(draws.sums(rows[*index])) {
            *largest = largest.max(sum.abs() / divisor);
            as_extreme += usize::from(*largest >= least);
        }
        p_values[*index] = (observed + as_extreme) as f64 / all;
    }
    // A row cannot be more significant than one with a larger statistic.
    let mut least = 0.0f64;
    for index in order.iter().rev() {
        least = least.max(p_values[*index]);
        p_values[*index] = least;
    }
    p_values
}

/// The root of the sum of squares; never 0.
fn root(row: &[f64]) -> f64 {
    row.iter()
        .map(|d| d * d)
        .sum::<f64>()
        .sqrt()
        .max(f64::MIN_POSITIVE)
}

/// The interval of a row's mean: the shifts that this row's sign flips do not reject; `None` with too few blocks.
pub fn interval(row: &[f64], flips: &SignFlips, error_rate: f64) -> Option<(f64, f64)> {
    let mean = mean(row, |d| *d);
    if row.iter().all(|d| *d == 0.0) {
        // No block differs, for example in failures that no arm has.
        let is_significant = is_more_than_chance(&vec![1.0; row.len()], flips, error_rate);
        return is_significant.then_some((0.0, 0.0));
    }
    let spread: Vec<f64> = row.iter().map(|d| d - mean).collect();
    // The step must not be 0, or the search would find no end if all blocks agree exactly.
    let step = scale(&spread).max(mean.abs() * TIE) / (row.len() as f64).sqrt();
    interval_by(mean, step, |shift| {
        let shifted: Vec<f64> = row.iter().map(|d| d - shift).collect();
        is_more_than_chance(&shifted, flips, error_rate)
    })
}

/// The interval around a centre that a test does not reject; `step` is the first distance to try.
pub fn interval_by(
    centre: f64,
    step: f64,
    is_rejected: impl Fn(f64) -> bool,
) -> Option<(f64, f64)> {
    invert(centre, step, SEARCH, is_rejected)
}

/// Whether the mean of some values differs from 0, by all their sign flips.
pub fn is_more_than_chance(values: &[f64], flips: &SignFlips, error_rate: f64) -> bool {
    let sum: f64 = values.iter().sum::<f64>().abs();
    let least = sum * (1.0 - TIE);
    let sums = flips.sums(values);
    let as_extreme = sums.iter().filter(|flipped| flipped.abs() >= least).count();
    let observed = flips.uncounted(values.len());
    let allowed = (error_rate * (flips.rows() + observed) as f64 + TIE).floor() as usize;
    sum > 0.0 && observed + as_extreme <= allowed
}

/// The root mean square of a row.
pub fn size(row: &[f64]) -> f64 {
    (row.iter().map(|d| d * d).sum::<f64>() / row.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flips(blocks: usize) -> SignFlips {
        SignFlips::draw("test", blocks, 0.05)
    }

    #[test]
    fn six_blocks_of_one_sign_have_the_p_value_of_two_flips_in_64() {
        let rows: [&[f64]; 2] = [
            &[5.0, 5.1, 4.9, 5.0, 5.2, 4.8],
            &[1.0, -1.2, 0.9, -1.1, 1.0, -0.8],
        ];
        let p = p_values(&rows, &flips(6));
        assert!((p[0] - 2.0 / 64.0).abs() < 1e-12, "{p:?}");
        assert!(p[1] > 0.5, "{p:?}");
        // Five cannot be more significant than 2 of 32.
        let five = p_values(&[&rows[0][..5]], &flips(5));
        assert!((five[0] - 0.0625).abs() < 1e-12, "{five:?}");
    }

    #[test]
    fn a_p_value_is_adjusted_for_smaller_statistics_only() {
        // By itself the first row is as sure as 6 blocks can be; with a row that is steady at other signs it is not.
        let loose: &[f64] = &[1.0, 2.0, 9.0, 1.5, 3.0, 2.5];
        let steady: &[f64] = &[1.0, 1.0, 1.0, -1.0, -1.0, 1.0];
        let alone = p_values(&[loose], &flips(6))[0];
        let beside = p_values(&[loose, steady], &flips(6))[0];
        assert!(
            (alone - 2.0 / 64.0).abs() < 1e-12 && beside > alone,
            "{alone} {beside}"
        );
        let large: &[f64] = &[7.0; 6];
        let below = p_values(&[loose, large], &flips(6));
        assert!((below[0] - 2.0 / 64.0).abs() < 1e-12, "{below:?}");
    }

    #[test]
    fn an_error_rate_below_one_in_twenty_thousand_is_resolved() {
        let row = [1.0; 30];
        for error_rate in [0.05, 2e-5] {
            let flips = SignFlips::draw("test", row.len(), error_rate);
            assert!(
                is_more_than_chance(&row, &flips, error_rate),
                "{error_rate}"
            );
            assert!(p_values(&[&row], &flips)[0] <= error_rate, "{error_rate}");
        }
    }

    #[test]
    fn rows_without_any_difference_are_not_significant() {
        assert_eq!(p_values(&[&[0.0; 8]], &flips(8)), [1.0]);
        assert!(p_values(&[], &flips(8)).is_empty());
    }

    #[test]
    fn the_interval_of_six_blocks_is_their_lowest_and_highest() {
        let row = [5.0, 5.1, 4.9, 5.0, 5.2, 4.8];
        let (low, high) = interval(&row, &flips(6), 0.05).unwrap();
        assert!(
            (low - 4.8).abs() < 1e-3 && (high - 5.2).abs() < 1e-3,
            "{low} {high}"
        );
        assert_eq!(interval(&row[..5], &flips(5), 0.05), None);
        assert_eq!(interval(&row[..1], &flips(1), 0.05), None);
    }

    #[test]
    fn the_interval_of_a_difference_that_repeats_is_that_difference() {
        let (low, high) = interval(&[3.0; 8], &flips(8), 0.05).unwrap();
        assert!(
            (low - 3.0).abs() < 1e-6 && (high - 3.0).abs() < 1e-6,
            "{low} {high}"
        );
        let (low, high) = interval(&[0.0; 8], &flips(8), 0.05).unwrap();
        assert!(low.abs() < 1e-6 && high.abs() < 1e-6, "{low} {high}");
    }
}
