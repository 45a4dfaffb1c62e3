//! Coins: in which order a block's two trials ran, and all the ways in which they might have run.
//!
//! Under "no difference" the order is all that chance decided, so the coins of the design are the null
//! distribution: whatever a machine does to its trials, a verdict is wrong as often as the coins say.

use crate::design::keyed;

/// Rows of resampled coins where there are too many for all of them.
pub(crate) const ROWS: usize = 20_000;

/// Up to so many blocks all ways in which the coins might have fallen are taken: 2^14 of them are fewer than `ROWS`.
const WHOLE: usize = 14;

/// Rows whose sums stay in a CPU's nearest cache while all columns are added up.
const CACHED: usize = 2048;

/// Columns in a byte.
const BYTE: usize = 8;

/// Rows of coins, one column per block; the first columns of every look are those of all later looks.
#[derive(Debug)]
pub(crate) struct Coins {
    /// One byte per row for each eight columns; a set bit is a coin of -1.
    bytes: Vec<Vec<u8>>,
    rows: usize,
    /// Whether they are all the ways there are, the coins that really fell among them.
    pub(crate) is_whole: bool,
}

impl Coins {
    /// Coins for the first `blocks` of at most `cap` blocks, fixed by `key`.
    pub(crate) fn throw(key: &str, blocks: usize, cap: usize) -> Self {
        // A run directory may hold more blocks than its plan allows; no look reaches beyond the plan's.
        let blocks = blocks.min(cap);
        let is_whole = cap <= WHOLE;
        let rows = if is_whole { 1 << cap } else { ROWS };
        let column = |byte: usize| -> Vec<u8> {
            if is_whole {
                return (0..rows).map(|row| (row >> (byte * BYTE)) as u8).collect();
            }
            let mut dice = keyed(&format!("{key}\n{byte}"));
            let mut thrown = Vec::with_capacity(rows + BYTE);
            while thrown.len() < rows {
                thrown.extend(dice.bits().to_le_bytes());
            }
            thrown.truncate(rows);
            thrown
        };
        Self {
            bytes: (0..blocks.div_ceil(BYTE)).map(column).collect(),
            rows,
            is_whole,
        }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The sum of `scores` in each row, every score taken with its coin's sign.
    ///
    /// Eight scores have 256 sums, which are worked out once; a row then costs one look-up for eight blocks.
    pub(crate) fn sums(&self, scores: &[f64]) -> Vec<f64> {
        let table =
            |scores: &[f64]| -> [f64; 256] { std::array::from_fn(|signs| signed(scores, signs)) };
        let tables: Vec<_> = scores.chunks(BYTE).map(table).collect();
        let mut sums = vec![0.0; self.rows];
        for (few, sums) in sums.chunks_mut(CACHED).enumerate() {
            for (table, bytes) in tables.iter().zip(&self.bytes) {
                for (sum, signs) in sums.iter_mut().zip(&bytes[few * CACHED..]) {
                    *sum += table[usize::from(*signs)];
                }
            }
        }
        sums
    }
}

fn signed(scores: &[f64], signs: usize) -> f64 {
    let each = scores.iter().enumerate();
    each.map(|(column, score)| {
        if signs >> column & 1 == 0 {
            *score
        } else {
            -score
        }
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_group_holds_every_way_once() {
        let sums = Coins::throw("any", 3, 3).sums(&[1.0, 2.0, 4.0]);
        let mut sums: Vec<i32> = sums.iter().map(|sum| *sum as i32).collect();
        sums.sort_unstable();
        assert_eq!(sums, [-7, -5, -3, -1, 1, 3, 5, 7]);
    }

    #[test]
    fn later_looks_see_the_same_coins() {
        let scores: Vec<f64> = (0..40).map(f64::from).collect();
        let (early, late) = (Coins::throw("k", 9, 40), Coins::throw("k", 40, 40));
        assert_eq!(early.sums(&scores[..9]), late.sums(&scores[..9]));
        assert_ne!(late.sums(&scores), Coins::throw("l", 40, 40).sums(&scores));
    }

    #[test]
    fn coins_are_fair() {
        let sums = Coins::throw("fair", 100, 100).sums(&[1.0; 100]);
        let mean = sums.iter().sum::<f64>() / ROWS as f64;
        let square = sums.iter().map(|sum| sum * sum).sum::<f64>() / ROWS as f64;
        assert!(
            mean.abs() < 0.3 && (square - 100.0).abs() < 4.0,
            "{mean} {square}"
        );
    }
}
