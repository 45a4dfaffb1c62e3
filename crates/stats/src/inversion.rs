//! Inversion: the confidence interval of a test consists of the shifts that the test does not reject.

/// How far and how finely the ends of an interval are searched for.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// Most distances to try, each twice the one before; beyond them there is no end.
    pub tries: u32,
    /// Bisection steps, once the end lies between two distances.
    pub halvings: u32,
}

/// The shifts around `centre` that are not rejected; `step` is the first distance to try. The ends themselves are
/// rejected. `None` if no distance tried is rejected.
pub fn interval(
    centre: f64,
    step: f64,
    search: Search,
    mut is_rejected: impl FnMut(f64) -> bool,
) -> Option<(f64, f64)> {
    let mut end = |sign: f64| end_distance(step, search, |far| is_rejected(centre + sign * far));
    Some((centre - end(-1.0)?, centre + end(1.0)?))
}

/// The smallest rejected distance found.
fn end_distance(
    step: f64,
    search: Search,
    mut is_rejected: impl FnMut(f64) -> bool,
) -> Option<f64> {
    let (mut inside, mut outside) = (0.0, step);
    let mut tries = 1;
    while !is_rejected(outside) {
        if tries == search.tries {
            return None;
        }
        tries += 1;
        (inside, outside) = (outside, 2.0 * outside);
    }
    for _ in 0..search.halvings {
        let middle = f64::midpoint(inside, outside);
        if is_rejected(middle) {
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
        let is_rejected = |shift: f64| !(-2.0..=1.5).contains(&shift);
        let (low, high) = interval(1.0, 0.5, SEARCH, is_rejected).unwrap();
        assert!(
            (low + 2.0).abs() < 1e-6 && (high - 1.5).abs() < 1e-6,
            "{low} {high}"
        );
        assert!(is_rejected(low) && is_rejected(high));
    }

    #[test]
    fn an_end_that_is_too_far_is_none() {
        // 0.5, 1, 2 and 4 are tried.
        assert!(interval(0.0, 0.5, SEARCH, |shift| shift.abs() > 3.9).is_some());
        assert_eq!(interval(0.0, 0.5, SEARCH, |shift| shift.abs() > 4.0), None);
        assert_eq!(interval(0.0, 0.5, SEARCH, |shift| shift > 0.1), None);
    }
}
