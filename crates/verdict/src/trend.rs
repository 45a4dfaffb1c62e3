//! Trends: whether something grows within a trial, memory for instance, and by how much.
//!
//! ```text
//! Theil 1950, Sen 1968   slope = median of the slopes of all pairs; its interval leaves out slopes by Kendall's variance
//! Mann 1945              S = sum of sgn(y_j - y_i) over i < j,  Z = (S - sgn S) / sqrt(n (n-1) (2n+5) / 18)
//! Kendall 1938           tau = S / sqrt(pairs that differ in x * pairs that differ in y)
//! ```
//! All of them take neighbouring values to be independent, which those of one trial hardly are: a slope alone proves no
//! leak. Compare the slopes of two arms, block by block, as any other metric.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::score::median;

/// A slope, in units of y per unit of x, and its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// The median of all slopes.
    pub slope: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A test of values in their order against "no trend".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannKendall {
    /// Pairs that rise less pairs that fall.
    pub s: f64,
    /// Of S under "no trend", with ties taken into account.
    pub variance: f64,
    /// S in standard deviations, one step nearer to zero.
    pub z: f64,
    /// Two-sided.
    pub p_value: f64,
}

/// The slope of points (x, y), with an interval of the given error rate. `None` where no two points differ in x.
pub fn theil_sen(points: &[(f64, f64)], error_rate: f64) -> Option<Slope> {
    let between = |(one, other): (&(f64, f64), &(f64, f64))| {
        (one.0 < other.0 || other.0 < one.0).then(|| (other.1 - one.1) / (other.0 - one.0))
    };
    let mut slopes: Vec<f64> = duos(points).filter_map(between).collect();
    slopes.sort_by(f64::total_cmp);
    let y: Vec<f64> = points.iter().map(|point| point.1).collect();
    let z = Normal::standard().inverse_cdf(1.0 - error_rate / 2.0);
    let (count, reach) = (slopes.len() as f64, z * variance(&y).sqrt());
    let low = (((count - reach) / 2.0).round_ties_even() - 1.0).max(0.0) as usize;
    let high = f64::midpoint(count, reach)
        .round_ties_even()
        .min(count - 1.0) as usize;
    (!slopes.is_empty()).then(|| Slope {
        slope: median(&slopes),
        low: slopes[low],
        high: slopes[high],
    })
}

/// The trend of values in their order. `None` where all are the same.
pub fn mann_kendall(y: &[f64]) -> Option<MannKendall> {
    let s: f64 = duos(y).map(|(one, other)| sign(other - one)).sum();
    let variance = variance(y);
    let z = (s - sign(s)) / variance.sqrt();
    let p_value = (2.0 * Normal::standard().sf(z.abs())).min(1.0);
    (variance > 0.0).then_some(MannKendall {
        s,
        variance,
        z,
        p_value,
    })
}

/// Kendall's tau-b of points (x, y), -1 to 1. `None` where x or y is all the same.
pub fn kendall_tau(points: &[(f64, f64)]) -> Option<f64> {
    let (mut s, mut in_x, mut in_y) = (0.0, 0.0, 0.0);
    for (one, other) in duos(points) {
        let (x, y) = (sign(other.0 - one.0), sign(other.1 - one.1));
        s += x * y;
        in_x += x.abs();
        in_y += y.abs();
    }
    (in_x > 0.0 && in_y > 0.0).then(|| s / f64::sqrt(in_x * in_y))
}

/// (n (n-1) (2n+5) - sum over ties t (t-1) (2t+5)) / 18.
pub(crate) fn variance(y: &[f64]) -> f64 {
    let term = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties = sorted.chunk_by(|one, other| one.to_bits() == other.to_bits());
    (term(y.len() as f64) - ties.map(|tie| term(tie.len() as f64)).sum::<f64>()) / 18.0
}

/// All pairs, the earlier one first.
fn duos<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    all.iter()
        .enumerate()
        .flat_map(|(index, one)| all[index + 1..].iter().map(move |other| (one, other)))
}

fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    const Y: [f64; 10] = [
        100.0, 101.0, 101.5, 103.0, 102.7, 104.0, 105.1, 104.9, 106.2, 107.0,
    ];

    fn points() -> Vec<(f64, f64)> {
        Y.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect()
    }

    #[test]
    fn slope_and_interval_are_those_of_the_reference() {
        let slope = theil_sen(&points(), 0.05).unwrap();
        close(slope.slope, 0.75, 8);
        close(slope.low, 0.65, 8);
        close(slope.high, 0.86, 8);
    }

    #[test]
    fn the_trend_is_that_of_the_reference() {
        close(kendall_tau(&points()).unwrap(), 0.911_111_11, 8);
        let trend = mann_kendall(&Y).unwrap();
        close(trend.s, 41.0, 12);
        close(trend.variance, 125.0, 12);
        close(trend.z, 3.577_708_76, 8);
        assert!(trend.p_value < 0.001);
    }

    #[test]
    fn what_does_not_vary_has_no_trend() {
        assert_eq!(theil_sen(&[(1.0, 2.0), (1.0, 3.0)], 0.05), None);
        assert_eq!(theil_sen(&[], 0.05), None);
        assert_eq!(mann_kendall(&[1.0; 5]), None);
        assert_eq!(kendall_tau(&[(1.0, 2.0), (2.0, 2.0)]), None);
        assert!((theil_sen(&[(1.0, 2.0), (2.0, 2.0)], 0.05).unwrap().slope).abs() < 1e-12);
    }
}
