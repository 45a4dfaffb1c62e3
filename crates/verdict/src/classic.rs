//! Classic tests: for numbers that came from elsewhere, and to be compared with.
//!
//! ```text
//! unpaired   Mann and Whitney 1947 (ties, continuity)   Welch 1947
//! paired     Wilcoxon 1945 (exact)   sign flips (Fisher 1935, exact)   Student 1908   Hodges and Lehmann 1963
//! ```
//! Each has one look. Looked at after each block until it fires, a 5 % test errs in 23 % of 60-block runs.

use std::collections::BTreeMap;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::score::median;

/// Signs of so many values are tried one by one, 2^20 ways.
const MOST_FLIPS: usize = 20;

/// Sums that differ by less are the same.
const SAME: f64 = 1e-12;

/// A test's statistic and its two-sided chance under "no difference".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Named by each test.
    pub statistic: f64,
    /// Between 0 and 1.
    pub chance: f64,
}

/// U of the first sample, by the normal approximation with corrections for ties and continuity. `None` without values
/// or where all are the same.
pub fn mann_whitney(one: &[f64], other: &[f64]) -> Option<Test> {
    let all: Vec<f64> = one.iter().chain(other).copied().collect();
    let (m, n, total) = (one.len() as f64, other.len() as f64, all.len() as f64);
    let (ranks, ties) = ranks(&all);
    let statistic = ranks[..one.len()].iter().sum::<f64>() - m * (m + 1.0) / 2.0;
    let cubes: f64 = ties.iter().map(|count| count.powi(3) - count).sum();
    let deviation = (m * n / 12.0 * (total + 1.0 - cubes / (total * (total - 1.0)))).sqrt();
    let distance = ((statistic - m * n / 2.0).abs() - 0.5).max(0.0);
    let chance = (2.0 * Normal::standard().sf(distance / deviation)).min(1.0);
    (deviation > 0.0).then_some(Test { statistic, chance })
}

/// t of the difference of means, without the assumption that both spread alike. `None` with fewer than two values
/// in either or without spread.
pub fn welch(one: &[f64], other: &[f64]) -> Option<Test> {
    let (mean_one, error_one) = mean_and_error(one)?;
    let (mean_other, error_other) = mean_and_error(other)?;
    let error = error_one + error_other;
    let of = |error: f64, sample: &[f64]| error * error / (sample.len() - 1) as f64;
    let freedom = error * error / (of(error_one, one) + of(error_other, other));
    student((mean_one - mean_other) / error.sqrt(), freedom)
}

/// t of the mean of paired differences. `None` with fewer than two or without spread.
pub fn paired_t(x: &[f64]) -> Option<Test> {
    let (mean, error) = mean_and_error(x)?;
    student(mean / error.sqrt(), (x.len() - 1) as f64)
}

/// The smaller sum of ranks of sizes, exact by counting all signs. Zeros are left out; `None` if nothing is left.
pub fn signed_rank(x: &[f64]) -> Option<Test> {
    let x: Vec<f64> = x.iter().copied().filter(|value| *value != 0.0).collect();
    let sizes: Vec<f64> = x.iter().map(|value| value.abs()).collect();
    let ranks = ranks(&sizes).0;
    let positive: f64 = x
        .iter()
        .zip(&ranks)
        .filter(|(value, _)| **value > 0.0)
        .map(|(_, rank)| rank)
        .sum();
    let statistic = positive.min(ranks.iter().sum::<f64>() - positive);
    // Twice a rank is whole, with ties too.
    let mut ways = BTreeMap::from([(0u64, 1.0)]);
    for rank in &ranks {
        let mut next = ways.clone();
        for (sum, count) in &ways {
            *next.entry(sum + (2.0 * rank) as u64).or_default() += count;
        }
        ways = next;
    }
    let as_far: f64 = ways
        .range(..=(2.0 * statistic) as u64)
        .map(|(_, count)| count)
        .sum();
    let chance = (2.0 * as_far / (x.len() as f64).exp2()).min(1.0);
    (!x.is_empty()).then_some(Test { statistic, chance })
}

/// The sum against its sums under all flips of signs. `None` without values, or with more than 20.
pub fn sign_flip(x: &[f64]) -> Option<Test> {
    if x.is_empty() || x.len() > MOST_FLIPS {
        return None;
    }
    let statistic: f64 = x.iter().sum();
    let flipped = |signs: usize| -> f64 {
        let each = x.iter().enumerate();
        each.map(|(index, value)| {
            if signs >> index & 1 == 0 {
                *value
            } else {
                -value
            }
        })
        .sum()
    };
    let ways = 1usize << x.len();
    let as_far = (0..ways)
        .filter(|signs| flipped(*signs).abs() >= statistic.abs() - SAME)
        .count();
    Some(Test {
        statistic,
        chance: as_far as f64 / ways as f64,
    })
}

/// The median of all means of two values, a value with itself included, and its interval at `z` deviations: None where
/// there are too few values for one.
///
/// k = floor(n(n+1)/4 - z sqrt(n(n+1)(2n+1)/24)) of the means are cut off at either end (Walsh 1949).
pub fn hodges_lehmann(x: &[f64], z: f64) -> (f64, Option<(f64, f64)>) {
    let n = x.len() as f64;
    let pairs = x
        .iter()
        .enumerate()
        .flat_map(|(index, one)| x[index..].iter().map(move |other| (one, other)));
    let mut means: Vec<f64> = pairs
        .map(|(one, other)| f64::midpoint(*one, *other))
        .collect();
    means.sort_by(f64::total_cmp);
    let cut = n * (n + 1.0) / 4.0 - z * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    let interval =
        (cut >= 1.0).then(|| (means[cut as usize], means[means.len() - 1 - cut as usize]));
    (median(&means), interval)
}

/// Ranks from 1, equal values sharing the mean of theirs, and the size of each group of equals.
fn ranks(values: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let (mut ranks, mut ties, mut before) = (vec![0.0; values.len()], Vec::new(), 0);
    for group in order.chunk_by(|one, other| values[*one].to_bits() == values[*other].to_bits()) {
        for index in group {
            ranks[*index] = before as f64 + (group.len() + 1) as f64 / 2.0;
        }
        before += group.len();
        ties.push(group.len() as f64);
    }
    (ranks, ties)
}

/// The mean and the square of its standard error.
fn mean_and_error(x: &[f64]) -> Option<(f64, f64)> {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let squares: f64 = x.iter().map(|value| (value - mean).powi(2)).sum();
    (x.len() >= 2).then(|| (mean, squares / (n - 1.0) / n))
}

fn student(statistic: f64, freedom: f64) -> Option<Test> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    statistic.is_finite().then(|| Test {
        statistic,
        chance: 2.0 * t.sf(statistic.abs()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::{D, close};
    use crate::score::tukey;

    const ONE: [f64; 10] = [10.1, 9.8, 10.4, 9.9, 10.0, 10.3, 9.7, 10.2, 10.1, 9.6];
    const OTHER: [f64; 10] = [9.9, 9.5, 10.0, 9.7, 9.6, 10.1, 9.4, 9.8, 10.0, 9.3];

    #[test]
    fn unpaired_tests_are_those_of_the_reference() {
        let test = mann_whitney(&ONE, &OTHER).unwrap();
        close(test.statistic, 77.0, 12);
        close(test.chance, 0.044_187_230_119, 11);
        close(welch(&ONE, &OTHER).unwrap().chance, 0.031_123_361_284, 12);
    }

    #[test]
    fn paired_tests_are_those_of_the_reference() {
        let test = signed_rank(&D).unwrap();
        assert_eq!((test.statistic, test.chance), (8.0, 0.012_207_031_25));
        close(sign_flip(&D).unwrap().chance, 0.010_253_906_25, 15);
        close(sign_flip(&tukey(&D)).unwrap().chance, 0.019_531_25, 15);
        let test = paired_t(&D).unwrap();
        close(test.statistic, -1.786_740_043_1, 10);
        close(test.chance, 0.101_535_573_738, 12);
    }

    #[test]
    fn the_estimate_and_its_interval_are_those_of_the_reference() {
        let (centre, interval) = hodges_lehmann(&D, 1.96);
        close(centre, -0.024_75, 10);
        let (low, high) = interval.unwrap();
        close(low, -0.0455, 10);
        close(high, -0.0085, 10);
        assert_eq!(hodges_lehmann(&D[..3], 1.96).1, None);
    }

    /// z of scores or of signed ranks: their sum over the root of the sum of squares.
    fn z(scores: &[f64]) -> f64 {
        scores.iter().sum::<f64>() / scores.iter().map(|score| score * score).sum::<f64>().sqrt()
    }

    #[test]
    fn standardised_scores_are_those_of_the_reference() {
        for (shift, want) in [
            (0.0, -2.272_009_463_8),
            (0.02, -0.180_207_94),
            (-0.02, -2.945_979_24),
            (0.05, 2.802_947_55),
            (-0.05, -3.324_688_78),
        ] {
            close(
                z(&tukey(&D.map(|value| value + shift))),
                want,
                if shift == 0.0 { 10 } else { 8 },
            );
        }
        let signed: Vec<f64> = ranks(&D.map(f64::abs))
            .0
            .iter()
            .zip(D)
            .map(|(rank, value)| rank * value.signum())
            .collect();
        close(z(&signed), -2.431_840_075_7, 10);
    }

    #[test]
    fn what_cannot_be_tested_is_not() {
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0]), None);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(welch(&[1.0, 1.0], &[1.0, 1.0]), None);
        assert_eq!(paired_t(&[1.0]), None);
        assert_eq!(signed_rank(&[0.0]), None);
        assert_eq!(sign_flip(&[1.0; 21]), None);
    }
}
