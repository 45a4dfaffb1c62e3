//! Batch means: a long series as a few averages of neighbouring values, and the autocorrelation of these.
//!
//! Values of one trial are autocorrelated, so a hundred of them carry less information than a hundred separate trials.
//! Averages over longer times correlate less; the remaining correlation is estimated and widens every interval:
//! ```text
//! inflation (1 + r) / (1 - r)   factor of the variance if neighbours correlate by r (Bartlett 1946)
//! r         lag-1 correlation of the residuals of a line or steps, less its bias (Kendall 1954), plus some standard errors: unless
//!           neighbours are surely independent, they are treated as correlated
//! ```

use crate::average::{less, median};

/// Number of batches in a window.
pub const BATCHES: usize = 48;

/// Fewest batches that are used.
pub const FEWEST: usize = 24;

/// Upper limit of the correlation; at this value nothing is significant.
const MAX_CORRELATION: f64 = 0.95;

/// A value at an instant (the middle of several readings), and the number of readings averaged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Time in seconds.
    pub at_s: f64,
    /// Value in the unit of the series.
    pub value: f64,
    /// Number of readings.
    pub weight: f64,
}

/// The means over equal parts of the time span, as (mean time of the readings, mean value). A part without a reading is
/// left out. There are at most `BATCHES` parts and no more than readings. Empty if fewer than `FEWEST` are left.
pub fn means(readings: &[Reading], from_s: f64, to_s: f64) -> Vec<(f64, f64)> {
    let inside: Vec<&Reading> = readings
        .iter()
        .filter(|reading| from_s <= reading.at_s && reading.at_s < to_s)
        .collect();
    let count = inside.len().min(BATCHES);
    if count < FEWEST || to_s <= from_s {
        return Vec::new();
    }
    let width_s = (to_s - from_s) / count as f64;
    let part = |reading: &Reading| (((reading.at_s - from_s) / width_s) as usize).min(count - 1);
    let mut sums = vec![(0.0, 0.0, 0.0); count];
    for reading in inside {
        let sum = &mut sums[part(reading)];
        sum.0 += reading.at_s * reading.weight;
        sum.1 += reading.value * reading.weight;
        sum.2 += reading.weight;
    }
    let means: Vec<(f64, f64)> = sums
        .into_iter()
        .filter(|(_, _, weight)| *weight > 0.0)
        .map(|(times, values, weight)| (times / weight, values / weight))
        .collect();
    if means.len() < FEWEST {
        return Vec::new();
    }
    means
}

/// Factor by which autocorrelation increases a variance. `rest` holds the residuals of a model of the series;
/// `errors` standard errors are added to their correlation.
pub fn inflation(rest: &[f64], errors: f64) -> f64 {
    let count = rest.len() as f64;
    let r = lag_1(rest);
    let unbiased = r + (1.0 + 4.0 * r.max(0.0)) / count;
    let error = (1.0 - r * r).max(0.0).sqrt() / count.sqrt();
    let r = (unbiased + errors * error).clamp(0.0, MAX_CORRELATION);
    (1.0 + r) / (1.0 - r)
}

/// Values minus their median.
pub fn centred(values: &[f64]) -> Vec<f64> {
    less(values, median(values))
}

/// Lag-1 correlation; 0 if the values do not vary.
fn lag_1(rest: &[f64]) -> f64 {
    let spread: f64 = rest.iter().map(|value| value * value).sum();
    if spread <= 0.0 {
        return 0.0;
    }
    let products = rest.windows(2).map(|pair| pair[0] * pair[1]);
    products.sum::<f64>() / spread
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_s: f64, value: f64) -> Reading {
        Reading {
            at_s,
            value,
            weight: 1.0,
        }
    }

    #[test]
    fn readings_become_means_of_equal_times() {
        let all: Vec<Reading> = (0..480)
            .map(|s| reading(f64::from(s), f64::from(s % 10)))
            .collect();
        let means = means(&all, 0.0, 480.0);
        assert_eq!(means.len(), BATCHES);
        assert!(means.iter().all(|(_, mean)| (mean - 4.5).abs() < 1e-9));
        assert!((means[0].0 - 4.5).abs() < 1e-9);
    }

    #[test]
    fn a_reading_of_many_weighs_as_many() {
        let mut all: Vec<Reading> = (0..47).map(|s| reading(f64::from(s), 1.0)).collect();
        all.push(Reading {
            weight: 3.0,
            ..reading(46.5, 5.0)
        });
        let means = means(&all, 0.0, 48.0);
        assert!((means.last().unwrap().1 - 4.0).abs() < 1e-9, "{means:?}");
    }

    /// Parts that have different numbers of readings lie where their readings do.
    #[test]
    fn a_line_stays_a_line_however_readings_fall_into_parts() {
        let all: Vec<Reading> = (0..53)
            .map(|s| reading(f64::from(s), 3.0 * f64::from(s)))
            .collect();
        let means = means(&all, 0.0, 53.0);
        let is_on_it = |(at, mean): &(f64, f64)| (mean - 3.0 * at).abs() < 1e-9;
        assert!(means.iter().all(is_on_it), "{means:?}");
    }

    #[test]
    fn few_readings_have_no_means() {
        let all: Vec<Reading> = (0..23).map(|s| reading(f64::from(s), 1.0)).collect();
        assert_eq!(means(&all, 0.0, 23.0), []);
        assert_eq!(means(&[], 0.0, 1.0), []);
    }

    #[test]
    fn what_hangs_together_is_inflated_and_what_does_not_hardly() {
        let ramp: Vec<f64> = (0..48).map(|x| f64::from(x) - 23.5).collect();
        assert!(inflation(&ramp, 0.0) > 30.0);
        let to_and_fro: Vec<f64> = (0..48).map(|x| f64::from(x % 2) - 0.5).collect();
        assert!((inflation(&to_and_fro, 2.0) - 1.0).abs() < 1e-9);
        assert!(inflation(&[0.0; 48], 2.0) < 2.0);
    }
}
