//! Inversion: the interval of a test is made of the shifts that the test does not refute.

/// How far, and how finely, an end of an interval is searched for.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// Distances that are tried at the most, each twice the one before; an end that is farther is not an end.
    pub tries: u32,
    /// Halvings of the distance, once the end lies between two.
    pub halvings: u32,
}

/// The shifts around `centre` that are not refuted, the first distance tried being `step`. The ends are refuted
/// themselves. `None` while no shift, however large, would be.
pub fn interval(
    centre: f64,
    step: f64,
    search: Search,
    is_refuted: impl Fn(f64) -> bool,
) -> Option<(f64, f64)> {
    let end = |way: f64| distance(step, search, |far| is_refuted(centre + way * far));
    Some((centre - end(-1.0)?, centre + end(1.0)?))
}

/// The smallest distance found that is refuted.
fn distance(step: f64, search: Search, is_refuted: impl Fn(f64) -> bool) -> Option<f64> {
    let (mut inside, mut outside) = (0.0, step);
    let mut tries = 1;
    while !is_refuted(outside) {
        if tries == search.tries {
            return None;
        }
        tries += 1;
        (inside, outside) = (outside, 2.0 * outside);
    }
    for _ in 0..search.halvings {
        let middle = f64::midpoint(inside, outside);
        if is_refuted(middle) {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    Some(outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search {
        tries: 4,
        halvings: 30,
    };

    #[test]
    fn both_ends_are_found() {
        let is_refuted = |shift: f64| !(-2.0..=1.5).contains(&shift);
        let (low, high) = interval(1.0, 0.5, SEARCH, is_refuted).unwrap();
        assert!(
            (low + 2.0).abs() < 1e-6 && (high - 1.5).abs() < 1e-6,
            "{low} {high}"
        );
        assert!(is_refuted(low) && is_refuted(high));
    }

    #[test]
    fn an_end_that_is_too_far_is_none() {
        // 0.5, 1, 2 and 4 are tried.
        assert!(interval(0.0, 0.5, SEARCH, |shift| shift.abs() > 3.9).is_some());
        assert_eq!(interval(0.0, 0.5, SEARCH, |shift| shift.abs() > 4.0), None);
        assert_eq!(interval(0.0, 0.5, SEARCH, |shift| shift > 0.1), None);
    }
}
