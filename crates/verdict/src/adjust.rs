//! Adjusting: what chances mean when there are many of them.
//!
//! ```text
//! Holm 1979                       adjusted = running maximum of (m - k + 1) p_(k)        any false verdict at all
//! Benjamini and Hochberg 1995     adjusted = running minimum from the top of m p_(k) / k  share of false verdicts
//! ```
//! Holm holds whatever the dependence. Benjamini and Hochberg need independence or positive dependence, and promise less: for
//! pages on which one looks for something to look at.

/// Holm's adjusted chances, in the order given.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let all = chances.len();
    let order = rising(chances);
    let mut most = 0.0f64;
    let each = order.into_iter().enumerate();
    let adjusted = each.map(|(rank, index)| {
        most = most.max(chances[index] * (all - rank) as f64).min(1.0);
        (index, most)
    });
    placed(adjusted, all)
}

/// Benjamini's and Hochberg's adjusted chances, in the order given.
pub fn benjamini_hochberg(chances: &[f64]) -> Vec<f64> {
    let all = chances.len();
    let order = rising(chances);
    let mut least = 1.0f64;
    let each = order.into_iter().enumerate().rev();
    let adjusted = each.map(|(rank, index)| {
        least = least.min(chances[index] * all as f64 / (rank + 1) as f64);
        (index, least)
    });
    placed(adjusted, all)
}

fn rising(chances: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|one, other| chances[*one].total_cmp(&chances[*other]));
    order
}

fn placed(adjusted: impl Iterator<Item = (usize, f64)>, all: usize) -> Vec<f64> {
    let mut places = vec![0.0; all];
    for (index, chance) in adjusted {
        places[index] = chance;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    const CHANCES: [f64; 8] = [0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205];

    #[track_caller]
    fn check(got: &[f64], want: [f64; 8]) {
        for (got, want) in got.iter().zip(want) {
            close(*got, want, 6);
        }
    }

    #[test]
    fn both_are_those_of_the_reference() {
        check(
            &holm(&CHANCES),
            [0.008, 0.056, 0.234, 0.234, 0.234, 0.234, 0.234, 0.234],
        );
        check(
            &benjamini_hochberg(&CHANCES),
            [0.008, 0.032, 0.0672, 0.0672, 0.0672, 0.08, 0.084_571, 0.205],
        );
    }

    #[test]
    fn chances_keep_their_places() {
        let mut reversed = CHANCES;
        reversed.reverse();
        let mut got = holm(&reversed);
        got.reverse();
        assert_eq!(got, holm(&CHANCES));
        assert!(holm(&[]).is_empty());
    }
}
