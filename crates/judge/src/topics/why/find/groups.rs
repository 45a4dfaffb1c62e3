//! Divides boots into fast and slow ones.

/// The size of the first of two groups of ascending figures; fewer than two figures are one group.
///
/// The sum of squares within groups is minimal (Fisher 1958; Jenks 1967 for two classes).
pub(crate) fn cut(figures: &[f64]) -> usize {
    let squares = |group: &[f64]| {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        group
            .iter()
            .map(|figure| (figure - mean).powi(2))
            .sum::<f64>()
    };
    let within = |cut: usize| squares(&figures[..cut]) + squares(&figures[cut..]);
    (1..figures.len())
        .min_by(|a, b| within(*a).total_cmp(&within(*b)))
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
