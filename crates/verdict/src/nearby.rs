//! Sums of scores over all sign flips, near enough to tell which of them matter.
//!
//! From one look to the next the scale and the order effect of a metric change a little, and with them every score, so that no sum can
//! be carried on. But scores are smooth: they are expanded about an earlier look, and their sums with them.
//! ```text
//! u = (x - c k) / s                       x a contrast, c the place of the arm, k the order effect, s the scale
//! u = u0 s0 / s + c (k0 - k) / s          by those of the earlier look, k0 and s0
//! psi(u) ~ psi(u0) + a psi'(u0) u0 + b psi'(u0) c          a = s0 / s - 1,  b = (k0 - k) / s
//! ```
//! Three sums for each row thus stand for all looks nearby, and a block more costs one addition to each. How far a sum may be off is not
//! estimated: it is the sum of what the expansion is off for each block. So whoever asks for exact sums where that leaves a
//! doubt (`boundary`) decides as with exact sums throughout.

use crate::randomization::{BYTE, SignFlips, table};
use crate::score::{biweight, slope};

/// Looks at fewer blocks cost no more when they are added up.
pub(crate) const FEWEST_BLOCKS: usize = 200;

/// How far, in standard deviations of the sums, they may be off before they are expanded about the present look.
const MOST_ERROR: f64 = 0.1;

/// What rounding may do to a sum, for each block; 1000 times what it does to 10,000 of them.
const ROUNDING: f64 = 1e-11;

/// The scores of one metric at a look, and what they were made with.
pub(crate) struct Scored {
    /// Contrasts less the shift that is tested.
    pub(crate) shifted: Vec<f64>,
    pub(crate) scores: Vec<f64>,
    pub(crate) effect: f64,
    pub(crate) scale: f64,
    /// The standard deviation of their sum over all sign flips.
    pub(crate) deviation: f64,
}

/// Sums of one metric near those of an earlier look.
#[derive(Default)]
pub(crate) struct NearbySums {
    effect: f64,
    scale: f64,
    /// Of each block in a whole column: the score, and its changes with scale and order effect.
    terms: Vec<[f64; 3]>,
    /// The sums of these, for each row.
    sums: [Vec<f64>; 3],
}

impl NearbySums {
    /// Raises `largest` to the size of each row's sum, in standard deviations. Returns how far these may be off.
    pub(crate) fn raise(
        &mut self,
        largest: &mut [f64],
        scored: &Scored,
        second: &[f64],
        flips: &SignFlips,
    ) -> f64 {
        if scored.deviation == 0.0 {
            return 0.0;
        }
        self.add_columns(scored, second, flips);
        let mut error = self.error(scored);
        if error.is_nan() || MOST_ERROR * scored.deviation < error {
            *self = Self {
                effect: scored.effect,
                scale: scored.scale,
                ..Self::default()
            };
            self.add_columns(scored, second, flips);
            error = self.error(scored);
        }
        let (by_scale, by_effect) = self.way(scored);
        let [plain, of_scale, of_effect] = &self.sums;
        let rest = table(&scored.scores[self.terms.len()..]);
        let none = vec![0; flips.rows()];
        let signs = flips.columns().get(self.terms.len() / BYTE);
        let signs = signs.unwrap_or(&none);
        for (row, largest) in largest.iter_mut().enumerate() {
            let sum = plain[row]
                + by_scale * of_scale[row]
                + by_effect * of_effect[row]
                + rest[usize::from(signs[row])];
            *largest = largest.max(sum.abs() / scored.deviation);
        }
        error / scored.deviation
    }

    /// From the earlier look to this one.
    fn way(&self, scored: &Scored) -> (f64, f64) {
        (
            self.scale / scored.scale - 1.0,
            (self.effect - scored.effect) / scored.scale,
        )
    }

    /// How far a sum may be off.
    fn error(&self, scored: &Scored) -> f64 {
        let (by_scale, by_effect) = self.way(scored);
        let off = |([score, of_scale, of_effect], exact): (&[f64; 3], &f64)| {
            (exact - (score + by_scale * of_scale + by_effect * of_effect)).abs()
        };
        let off: f64 = self.terms.iter().zip(&scored.scores).map(off).sum();
        let blocks = scored.scores.len() as f64;
        off + ROUNDING * blocks * (1.0 + by_scale.abs() + by_effect.abs())
    }

    /// Adds the blocks of all whole columns that are not among the sums yet.
    fn add_columns(&mut self, scored: &Scored, second: &[f64], flips: &SignFlips) {
        if self.scale == 0.0 {
            (self.effect, self.scale) = (scored.effect, scored.scale);
        }
        for sums in &mut self.sums {
            sums.resize(flips.rows(), 0.0);
        }
        let whole = scored.scores.len() / BYTE * BYTE;
        for first in (self.terms.len()..whole).step_by(BYTE) {
            let few = first..first + BYTE;
            for (shifted, place) in scored.shifted[few.clone()].iter().zip(&second[few]) {
                let u = (shifted - place * self.effect) / self.scale;
                let slope = slope(u);
                self.terms.push([biweight(u), slope * u, slope * place]);
            }
            let signs = &flips.columns()[first / BYTE];
            for (term, sums) in self.sums.iter_mut().enumerate() {
                let each: Vec<f64> = self.terms[first..]
                    .iter()
                    .map(|terms| terms[term])
                    .collect();
                let table = table(&each);
                for (sum, signs) in sums.iter_mut().zip(signs) {
                    *sum += table[usize::from(*signs)];
                }
            }
        }
    }
}
