//! Ratios between runs of a round, with distribution-free intervals.

/// A median, and its interval between two order statistics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Median {
    pub(crate) middle: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Least coverage of an interval, if there are enough rounds.
const COVERAGE: f64 = 0.95;

/// The median of `values` with its distribution-free interval (David and Nagaraja, Order
/// Statistics, 7.1): the narrowest pair of order statistics that covers the true median with 95 %.
/// Fewer than six values give their range.
pub(crate) fn median(values: &[f64]) -> Median {
    assert!(!values.is_empty(), "a contest has a round");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, cut) = (sorted.len(), cut(sorted.len()));
    Median {
        middle: f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
        low: sorted[cut],
        high: sorted[count - 1 - cut],
    }
}

/// Median of the ratios within each round.
pub(crate) fn pairwise(ours: &[f64], theirs: &[f64]) -> Median {
    assert_eq!(ours.len(), theirs.len(), "each round has one run of each");
    let ratios: Vec<f64> = ours
        .iter()
        .zip(theirs)
        .map(|(our, their)| our / their)
        .collect();
    median(&ratios)
}

/// Number of values outside the interval at either end: the largest for which the coverage,
/// 1 - 2 P(Binomial(count, 1/2) <= cut), is at least 95 %.
fn cut(count: usize) -> usize {
    let mut term = 0.5f64.powf(count as f64);
    let mut tail = term;
    let mut cut = 0;
    while cut + 1 < count.div_ceil(2) {
        term *= (count - cut) as f64 / (cut + 1) as f64;
        tail += term;
        if 1.0 - 2.0 * tail < COVERAGE {
            break;
        }
        cut += 1;
    }
    cut
}
