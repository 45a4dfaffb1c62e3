//! Slow boots and fast ones: where a list of figures falls apart.

/// How many of the figures, in rising order, are the first of two groups: those for which the squares of all distances from their
/// group's mean sum to the least (Fisher 1958; Jenks 1967 for two classes). Less than two figures are one group.
pub(crate) fn cut(figures: &[f64]) -> usize {
    let squares = |group: &[f64]| {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        group.iter().map(|one| (one - mean).powi(2)).sum::<f64>()
    };
    let within = |cut: usize| squares(&figures[..cut]) + squares(&figures[cut..]);
    let cuts = 1..figures.len();
    cuts.min_by(|one, other| within(*one).total_cmp(&within(*other)))
        .unwrap_or(figures.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_is_a_group_and_so_is_a_half() {
        assert_eq!(cut(&[1.0, 1.1, 1.2, 1.0, 5.0]), 4);
        assert_eq!(cut(&[1.0, 1.1, 1.2, 4.9, 5.0]), 3);
        assert_eq!(cut(&[-5.0, 1.0, 1.1]), 1);
        assert_eq!((cut(&[]), cut(&[1.0]), cut(&[2.0, 2.0, 2.0])), (0, 1, 1));
    }
}
