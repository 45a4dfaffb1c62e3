//! Means, medians, and Kendall's S.

/// The mean of `value` over all items; 0 without items.
pub fn mean<T>(items: &[T], value: impl Fn(&T) -> f64) -> f64 {
    items.iter().map(value).sum::<f64>() / items.len().max(1) as f64
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a median needs a value");
    let mut values = values.to_vec();
    let half = values.len() / 2;
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    if is_odd {
        return *upper;
    }
    let lower = below.iter().copied().max_by(f64::total_cmp);
    f64::midpoint(
        lower.expect("an even number of values has a lower half"),
        *upper,
    )
}

/// Each value minus a common shift.
pub fn less(values: &[f64], shift: f64) -> Vec<f64> {
    values.iter().map(|value| value - shift).collect()
}

/// Number of rising pairs of values minus falling pairs: the statistic of Mann 1945.
pub fn kendall_s(y: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (index, value) in y.iter().enumerate() {
        sum += y[index + 1..]
            .iter()
            .map(|later| sign(later - value))
            .sum::<f64>();
    }
    sum
}

/// Variance of S without a trend, corrected for ties: (n (n-1) (2n+5) - sum over ties t (t-1) (2t+5)) / 18.
pub fn kendall_variance(y: &[f64]) -> f64 {
    let term = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties = sorted.chunk_by(|a, b| a.to_bits() == b.to_bits());
    (term(y.len() as f64) - ties.map(|tie| term(tie.len() as f64)).sum::<f64>()) / 18.0
}

fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    #[test]
    fn kendalls_s_is_that_of_the_reference() {
        let y = [
            100.0, 101.0, 101.5, 103.0, 102.7, 104.0, 105.1, 104.9, 106.2, 107.0,
        ];
        close(kendall_s(&y), 41.0, 9);
        close(kendall_variance(&y), 125.0, 9);
        let ties = [1.0, 2.0, 2.0, 3.0];
        close(kendall_s(&ties), 5.0, 9);
        close(kendall_variance(&ties), 7.666_667, 6);
        close(kendall_variance(&[1.0; 5]), 0.0, 9);
    }
}
