//! Multiple testing: which of several p-values are significant.
//!
//! ```text
//! Holm 1979                    (m - k + 1) p_(k), none below the one before: family-wise, under any dependence
//! Benjamini and Hochberg 1995  m p_(k) / k, none above the one behind: the false discovery rate, under independence or
//!                              positive dependence (Benjamini and Yekutieli 2001)
//! ```
//! An adjusted p-value is compared with the error rate itself.

/// Holm's adjusted p-values, in the given order. They control the family-wise error rate.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut adjusted = vec![1.0; count];
    let mut largest = 0.0_f64;
    for (rank, index) in by_size(p_values).into_iter().enumerate() {
        largest = largest.max((count - rank) as f64 * p_values[index]);
        adjusted[index] = largest.min(1.0);
    }
    adjusted
}

/// Benjamini and Hochberg's adjusted p-values, in the given order. They control the mean share of false discoveries.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut adjusted = vec![1.0; count];
    let mut smallest = 1.0_f64;
    for (rank, index) in by_size(p_values).into_iter().enumerate().rev() {
        smallest = smallest.min(count as f64 / (rank + 1) as f64 * p_values[index]);
        adjusted[index] = smallest;
    }
    adjusted
}

/// Indices, the smallest p-value first.
fn by_size(p_values: &[f64]) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..p_values.len()).collect();
    indices.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    indices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    const P: [f64; 8] = [0.074, 0.001, 0.041, 0.008, 0.039, 0.205, 0.042, 0.06];

    fn check(adjusted: &[f64], wants: [f64; 8]) {
        for (value, want) in adjusted.iter().zip(wants) {
            close(*value, want, 6);
        }
    }

    #[test]
    fn both_are_those_of_the_reference() {
        let holm_wants = [0.234, 0.008, 0.234, 0.056, 0.234, 0.234, 0.234, 0.234];
        check(&holm(&P), holm_wants);
        let wants = [0.084_571, 0.008, 0.0672, 0.032, 0.0672, 0.205, 0.0672, 0.08];
        check(&benjamini_hochberg(&P), wants);
    }

    #[test]
    fn a_single_p_value_stays_and_none_stay_none() {
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert_eq!(
            (holm(&[0.03]), benjamini_hochberg(&[0.03])),
            (vec![0.03], vec![0.03])
        );
        assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
    }
}
