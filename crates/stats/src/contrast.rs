//! Contrasts: the difference between arm and baseline in a block, above zero if the arm is better.

use record::metric::Direction;
use record::verdict::{Pair, Verdict};

use crate::score::typical;

/// How two figures are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The logarithm of their ratio, so that a gain and the loss that reverses it have the same size.
    Ratio,
    /// Their difference as a share of the mean of all figures. It is used if some are zero, like counts of errors.
    Difference,
}

/// One metric's contrasts, block by block.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrasts {
    /// How the figures are compared.
    pub kind: Kind,
    /// One contrast per block, above 0 if the arm is better.
    pub values: Vec<f64>,
    /// The plan's margin on the scale of the contrasts.
    pub margin: f64,
    /// Size of a difference of 1 in the metric's unit; 1 for ratios.
    pub unit: f64,
    sign: f64,
}

impl Contrasts {
    /// The contrasts of some pairs; `None` if all figures are zero.
    pub fn of(pairs: &[Pair], direction: Direction, margin: f64) -> Option<Self> {
        let sign = match direction {
            Direction::Higher => 1.0,
            Direction::Lower => -1.0,
        };
        let figures = || pairs.iter().flat_map(|pair| [pair.baseline, pair.arm]);
        let ratio = |pair: &Pair| sign * (pair.arm / pair.baseline).ln();
        if figures().all(|figure| figure > 0.0) {
            return Some(Self {
                kind: Kind::Ratio,
                values: pairs.iter().map(ratio).collect(),
                margin: margin.ln_1p(),
                unit: 1.0,
                sign,
            });
        }
        let unit = figures().map(f64::abs).sum::<f64>() / (2 * pairs.len()) as f64;
        let difference = |pair: &Pair| sign * (pair.arm - pair.baseline) / unit;
        (unit > 0.0).then(|| Self {
            kind: Kind::Difference,
            values: pairs.iter().map(difference).collect(),
            margin,
            unit,
            sign,
        })
    }

    /// Whether the estimate of the first blocks agrees with a verdict; `second` is 1 if the arm ran second, else -1.
    pub fn agree_with(&self, verdict: Verdict, second: &[f64]) -> bool {
        let estimate = || typical(&self.values[..second.len()], second).shift;
        match verdict {
            Verdict::Better => estimate() > 0.0,
            Verdict::Worse => estimate() < 0.0,
            Verdict::Equivalent => estimate().abs() <= self.margin,
            Verdict::Undecided => true,
        }
    }

    /// The contrasts of the first blocks.
    #[must_use]
    pub fn first(&self, blocks: usize) -> Self {
        Self {
            values: self.values[..blocks].to_vec(),
            ..*self
        }
    }

    /// A contrast as the ratio of arm to baseline, or as a difference in the metric's unit.
    pub fn shown(&self, contrast: f64) -> f64 {
        match self.kind {
            Kind::Ratio => (self.sign * contrast).exp(),
            Kind::Difference => self.sign * contrast * self.unit,
        }
    }

    /// An interval of contrasts converted like `shown`, the lower end first.
    pub fn shown_interval(&self, low: f64, high: f64) -> (f64, f64) {
        let (a, b) = (self.shown(low), self.shown(high));
        (a.min(b), a.max(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(figures: &[[f64; 2]]) -> Vec<Pair> {
        let pair = |[baseline, arm]: &[f64; 2]| Pair {
            block: 1,
            baseline: *baseline,
            arm: *arm,
            arm_first: false,
        };
        figures.iter().map(pair).collect()
    }

    #[test]
    fn a_lower_figure_is_better_if_lower_is_better() {
        let contrasts = Contrasts::of(&pairs(&[[2.0, 1.0]]), Direction::Lower, 0.01).unwrap();
        assert!((contrasts.values[0] - 2f64.ln()).abs() < 1e-12);
        let (low, high) = contrasts.shown_interval(0.0, 2f64.ln());
        assert!((low - 0.5).abs() < 1e-12 && (high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn zeros_are_compared_by_difference() {
        let figures = pairs(&[[0.0, 4.0], [0.0, 0.0]]);
        let contrasts = Contrasts::of(&figures, Direction::Lower, 0.01).unwrap();
        assert_eq!(contrasts.values, [-4.0, 0.0]);
        assert!((contrasts.shown(-4.0) - 4.0).abs() < 1e-12);
        assert_eq!(
            Contrasts::of(&pairs(&[[0.0, 0.0]]), Direction::Lower, 0.01),
            None
        );
    }
}
