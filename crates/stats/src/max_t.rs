//! Which of many differences are more than chance: the largest statistic under randomization, step by step.
//!
//! ```text
//! T_j = |sum d_ij| / sqrt(sum d_ij^2)      d_ij: block i's difference of row j; the divisor heeds no sign
//! p_j = share of sign flips in which any row that is not larger than T_j gets as far as T_j, no less than that of the
//!       rows before                          step-down maxT: Westfall and Young 1993, algorithm 4.1
//! ```
//! Flips are the same for all rows of a block, so that rows may depend on each other in any way. Trials in two groups without
//! blocks have instead the value of each trial less the mean of all, summed over one group, and draws of a group of that size for sign flips.

use crate::average::mean;
use crate::inversion::{Search, interval as invert};
use crate::randomization::{Draws, SignFlips};
use crate::score::scale;

/// How the interval is searched for.
const SEARCH: Search = Search {
    tries: 17,
    halvings: 24,
};

/// Statistics that differ by less are the same.
const TIE: f64 = 1e-9;

/// The p-value of each row, adjusted for all of them. Every row has a value for each block, or for each trial.
pub fn p_values(rows: &[&[f64]], draws: &impl Draws) -> Vec<f64> {
    let Some(columns) = rows.first().map(|row| row.len()) else {
        return Vec::new();
    };
    let itself = draws.uncounted(columns);
    let all = (draws.rows() + itself) as f64;
    let seen: Vec<f64> = rows
        .iter()
        .map(|row| draws.seen(row).abs() / root(row))
        .collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|one, other| seen[*one].total_cmp(&seen[*other]));
    let mut largest = vec![0.0f64; draws.rows()];
    let mut p_values = vec![1.0; rows.len()];
    for index in &order {
        let divisor = root(rows[*index]);
        let least = seen[*index] - TIE;
        let mut as_far = 0;
        for (largest, sum) in largest.iter_mut().zip(draws.sums(rows[*index])) {
            *largest = largest.max(sum.abs() / divisor);
            as_far += usize::from(*largest >= least);
        }
        p_values[*index] = (itself + as_far) as f64 / all;
    }
    // A row cannot be surer than one with a larger statistic.
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

/// The interval of a row's mean: the shifts that the sign flips of this row alone do not refute. `None` with too few blocks.
pub fn interval(row: &[f64], flips: &SignFlips, error_rate: f64) -> Option<(f64, f64)> {
    let mean = mean(row, |d| *d);
    if row.iter().all(|d| *d == 0.0) {
        // Nothing differs in any block, as failures that none of the arms has.
        let is_nameable = is_more_than_chance(&vec![1.0; row.len()], flips, error_rate);
        return is_nameable.then_some((0.0, 0.0));
    }
    let spread: Vec<f64> = row.iter().map(|d| d - mean).collect();
    // The scale is never 0, so that the search ends where all blocks agree to the digit.
    let step = scale(&spread).max(mean.abs() * TIE) / (row.len() as f64).sqrt();
    interval_by(mean, step, |shift| {
        let shifted: Vec<f64> = row.iter().map(|d| d - shift).collect();
        is_more_than_chance(&shifted, flips, error_rate)
    })
}

/// The interval around a centre that a test does not refute; the first distance tried is `step`.
pub fn interval_by(centre: f64, step: f64, is_refuted: impl Fn(f64) -> bool) -> Option<(f64, f64)> {
    invert(centre, step, SEARCH, is_refuted)
}

/// Whether the mean of some values is not 0, by all their sign flips.
pub fn is_more_than_chance(values: &[f64], flips: &SignFlips, error_rate: f64) -> bool {
    let sum: f64 = values.iter().sum::<f64>().abs();
    let least = sum * (1.0 - TIE);
    let sums = flips.sums(values);
    let as_far = sums.iter().filter(|other| other.abs() >= least).count();
    let itself = flips.uncounted(values.len());
    let allowed = (error_rate * (flips.rows() + itself) as f64 + TIE).floor() as usize;
    sum > 0.0 && itself + as_far <= allowed
}

/// The typical size, whatever the signs.
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
    fn six_blocks_of_one_sign_are_two_flips_of_sixty_four() {
        let rows: [&[f64]; 2] = [
            &[5.0, 5.1, 4.9, 5.0, 5.2, 4.8],
            &[1.0, -1.2, 0.9, -1.1, 1.0, -0.8],
        ];
        let p = p_values(&rows, &flips(6));
        assert!((p[0] - 2.0 / 64.0).abs() < 1e-12, "{p:?}");
        assert!(p[1] > 0.5, "{p:?}");
        // Five cannot be surer than 2 of 32.
        let five = p_values(&[&rows[0][..5]], &flips(5));
        assert!((five[0] - 0.0625).abs() < 1e-12, "{five:?}");
    }

    #[test]
    fn a_row_pays_for_those_that_are_tested_with_it_and_not_for_larger_ones() {
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
    fn an_error_that_is_rarer_than_twenty_thousand_flips_can_be_told() {
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
    fn rows_without_any_difference_are_sure_of_nothing() {
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
