//! The universal scalability law: how throughput grows with clients or cores, and where the growth ends.
//!
//! ```text
//! X(N) = g N / (1 + a (N - 1) + b N (N - 1))         Gunther 1993, the universal scalability law
//! peak   N* = sqrt((1 - a) / b)
//! knee   the farthest point from the line between the first and the last, both axes scaled to 1: Satopaa et al. 2011
//! ```
//! g is the throughput of one client or core, a the serial share, b the cost of each pair. The fit is least squares by
//! Levenberg 1944 and Marquardt 1963. A fit has no error control: compare the peaks of two arms block by block.
//! The knee is for drawing only.

/// A fitted law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Law {
    /// Throughput of one client or core, in the unit of the points.
    pub gamma: f64,
    /// Serial share.
    pub alpha: f64,
    /// Cost of each pair.
    pub beta: f64,
}

/// Most steps of a fit.
const MAX_STEPS: u32 = 500;

/// If no step improves the fit at this damping, it has converged.
const MAX_DAMPING: f64 = 1e12;

impl Law {
    /// Throughput of `n` clients or cores.
    pub fn throughput(&self, n: f64) -> f64 {
        self.gamma * n / self.cost(n)
    }

    /// The N of highest throughput, and that throughput; `None` if throughput grows without limit or falls from the start.
    pub fn peak(&self) -> Option<(f64, f64)> {
        let n = ((1.0 - self.alpha) / self.beta).sqrt();
        (self.beta > 0.0 && self.alpha < 1.0).then(|| (n, self.throughput(n)))
    }

    fn cost(&self, n: f64) -> f64 {
        1.0 + self.alpha * (n - 1.0) + self.beta * n * (n - 1.0)
    }

    /// Derivatives of throughput by gamma, alpha and beta.
    fn slopes(&self, n: f64) -> [f64; 3] {
        let (x, cost) = (self.throughput(n), self.cost(n));
        [n / cost, -x * (n - 1.0) / cost, -x * n * (n - 1.0) / cost]
    }

    fn squares(&self, points: &[(f64, f64)]) -> f64 {
        points
            .iter()
            .map(|(n, x)| (x - self.throughput(*n)).powi(2))
            .sum()
    }
}

/// Fits points of (N, throughput), both above zero. `None` with fewer than three different N or if no fit converges.
/// Three points always fit, so such a fit is no evidence for the law.
pub fn fit(points: &[(f64, f64)]) -> Option<Law> {
    let mut sorted: Vec<f64> = points.iter().map(|point| point.0).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    if sorted.len() < 3 {
        return None;
    }
    let first = points.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let mut law = Law {
        gamma: first.1 / first.0,
        alpha: 0.02,
        beta: 1e-4,
    };
    let mut damping = 1e-3;
    for _ in 0..MAX_STEPS {
        let step = step(&law, points, damping)?;
        let next = Law {
            gamma: law.gamma + step[0],
            alpha: law.alpha + step[1],
            beta: law.beta + step[2],
        };
        let (before, after) = (law.squares(points), next.squares(points));
        if after < before {
            law = next;
            damping /= 10.0;
        } else if damping < MAX_DAMPING {
            damping *= 10.0;
        } else {
            return Some(law);
        }
    }
    None
}

/// Solves (J'J + damping diag(J'J)) step = J'r.
fn step(law: &Law, points: &[(f64, f64)], damping: f64) -> Option<[f64; 3]> {
    let mut rows = [[0.0; 4]; 3];
    for (n, x) in points {
        let (slopes, residual) = (law.slopes(*n), x - law.throughput(*n));
        for (row, slope) in rows.iter_mut().zip(slopes) {
            for (cell, other) in row.iter_mut().zip(slopes.into_iter().chain([residual])) {
                *cell += slope * other;
            }
        }
    }
    for (index, row) in rows.iter_mut().enumerate() {
        row[index] *= 1.0 + damping;
    }
    solve(rows)
}

/// Gauss-Jordan elimination; the matrix is positive definite, so no pivoting is needed.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for pivot in 0..3 {
        let scale = rows[pivot][pivot];
        if !scale.is_normal() {
            return None;
        }
        let pivot_row = rows[pivot].map(|cell| cell / scale);
        rows[pivot] = pivot_row;
        let each = rows.iter_mut().enumerate();
        for (_, row) in each.filter(|(index, _)| *index != pivot) {
            let factor = row[pivot];
            for (cell, pivot_row) in row.iter_mut().zip(pivot_row) {
                *cell -= factor * pivot_row;
            }
        }
    }
    Some(rows.map(|row| row[3]))
}

/// The point of a curve, in rising x, farthest above the line between its ends; `None` if no point lies above.
pub fn knee(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (first, last) = (points.first()?, points.last()?);
    let above = |point: &(f64, f64)| {
        (point.1 - first.1) / (last.1 - first.1) - (point.0 - first.0) / (last.0 - first.0)
    };
    let farthest = points.iter().max_by(|a, b| above(a).total_cmp(&above(b)))?;
    (above(farthest) > 0.0 && last.1 > first.1).then_some(*farthest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    /// SPEC SDM91 on a 16-way machine, as published by Gunther.
    const SDM91: [(f64, f64); 7] = [
        (1.0, 64.9),
        (18.0, 995.9),
        (36.0, 1652.4),
        (72.0, 1853.2),
        (108.0, 1828.9),
        (144.0, 1775.0),
        (216.0, 1702.2),
    ];

    #[test]
    fn the_fit_and_its_peak_are_those_of_the_reference() {
        let law = fit(&SDM91).unwrap();
        close(law.gamma, 89.9952, 4);
        // The reference stopped at a relative step of 1e-8.
        close(law.alpha, 0.027_728_46, 7);
        close(law.beta, 1.043_655e-4, 10);
        let (n, peak) = law.peak().unwrap();
        close(n, 96.5196, 4);
        close(peak, 1883.90, 2);
    }

    #[test]
    fn a_known_law_is_found_again() {
        let truth = Law {
            gamma: 50.0,
            alpha: 0.1,
            beta: 0.002,
        };
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
            .map(|n| (n, truth.throughput(n)))
            .to_vec();
        let law = fit(&points).unwrap();
        close(law.gamma, 50.0, 6);
        close(law.alpha, 0.1, 8);
        close(law.beta, 0.002, 9);
    }

    #[test]
    fn three_points_are_met_exactly() {
        let law = fit(&SDM91[..3]).unwrap();
        for (n, x) in &SDM91[..3] {
            close(law.throughput(*n), *x, 6);
        }
    }

    #[test]
    fn what_cannot_be_fitted_is_not() {
        assert_eq!(fit(&SDM91[..2]), None);
        assert_eq!(
            Law {
                gamma: 1.0,
                alpha: 0.1,
                beta: 0.0
            }
            .peak(),
            None
        );
    }

    #[test]
    fn the_knee_is_where_the_curve_bends() {
        let curve: Vec<(f64, f64)> = (0..=10)
            .map(|x| (f64::from(x), f64::from(x.min(4)) + f64::from(x) * 0.01))
            .collect();
        close(knee(&curve).unwrap().0, 4.0, 9);
        assert_eq!(knee(&[(0.0, 0.0), (1.0, 1.0)]), None);
        assert_eq!(knee(&[]), None);
    }
}
