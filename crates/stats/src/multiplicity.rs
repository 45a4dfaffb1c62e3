//! Several p-values at a time: which of them may be called significant.
//!
//! ```text
//! Holm 1979                    (m - k + 1) p_(k), none below the one before: family-wise, whatever the p-values have to do with each other
//! Benjamini and Hochberg 1995  m p_(k) / k, none above the one behind: the false discovery rate, where they are independent or
//!                              depend positively (Benjamini and Yekutieli 2001)
//! ```
//! An adjusted p-value is compared with the rate itself.

/// Adjusted so that the chance of any false one among those at or below a level is that level at the most. In the order of the p-values.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut adjusted = vec![1.0; count];
    let mut most = 0.0_f64;
    for (rank, place) in by_size(p_values).into_iter().enumerate() {
        most = most.max((count - rank) as f64 * p_values[place]);
        adjusted[place] = most.min(1.0);
    }
    adjusted
}

/// Adjusted so that of those at or below a level the share of false ones is that level at the most, on average.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let count = p_values.len();
    let mut adjusted = vec![1.0; count];
    let mut least = 1.0_f64;
    for (rank, place) in by_size(p_values).into_iter().enumerate().rev() {
        least = least.min(count as f64 / (rank + 1) as f64 * p_values[place]);
        adjusted[place] = least;
    }
    adjusted
}

/// Places, the smallest p-value first.
fn by_size(p_values: &[f64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..p_values.len()).collect();
    places.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    const P: [f64; 8] = [0.074, 0.001, 0.041, 0.008, 0.039, 0.205, 0.042, 0.06];

    fn check(adjusted: &[f64], wants: [f64; 8]) {
        for (one, want) in adjusted.iter().zip(wants) {
            close(*one, want, 6);
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
    fn one_alone_is_as_it_is_and_none_are_none() {
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert_eq!(
            (holm(&[0.03]), benjamini_hochberg(&[0.03])),
            (vec![0.03], vec![0.03])
        );
        assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
    }
}
