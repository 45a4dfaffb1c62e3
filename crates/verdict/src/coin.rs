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
    /// Of so many blocks the rows hold all ways there are, each as often: the coins that really fell among them.
    whole: usize,
}

impl Coins {
    /// Coins for the first `blocks` of at most `cap` blocks, fixed by `key`.
    pub(crate) fn throw(key: &str, blocks: usize, cap: usize) -> Self {
        Self::throw_on(key, blocks, (cap, cap))
    }

    /// The same of a run that was to have `cap` blocks at the most and may have `most`: its first `cap` columns say what
    /// they said before, so that no look of the plan's comes out otherwise.
    pub(crate) fn throw_on(key: &str, blocks: usize, (cap, most): (usize, usize)) -> Self {
        // A run directory may hold more blocks than it may have; no look reaches beyond those.
        let blocks = blocks.min(most);
        let whole = if cap <= WHOLE { cap } else { 0 };
        let rows = match (whole, cap < most) {
            (0, _) => ROWS,
            (whole, false) => 1 << whole,
            (whole, true) => ROWS.div_ceil(1 << whole) << whole,
        };
        let counted = |byte: usize| -> Vec<u8> {
            (0..rows).map(|row| (row >> (byte * BYTE)) as u8).collect()
        };
        let thrown = |byte: usize| -> Vec<u8> {
            let mut dice = keyed(&format!("{key}\n{byte}"));
            let mut thrown = Vec::with_capacity(rows + BYTE);
            while thrown.len() < rows {
                thrown.extend(dice.bits().to_le_bytes());
            }
            thrown.truncate(rows);
            thrown
        };
        let column = |byte: usize| match whole.saturating_sub(byte * BYTE) {
            0 => thrown(byte),
            left if BYTE <= left || cap == most => counted(byte),
            left => {
                let mask = (1u8 << left) - 1;
                let both = counted(byte).into_iter().zip(thrown(byte));
                both.map(|(way, coin)| way & mask | coin & !mask).collect()
            }
        };
        Self {
            bytes: (0..blocks.div_ceil(BYTE)).map(column).collect(),
            rows,
            whole,
        }
    }

    /// Paths of the first `blocks` blocks that count beside the rows: the one that the coins took is one of all paths,
    /// whether it is among the rows or not.
    pub(crate) fn beside(&self, blocks: usize) -> usize {
        usize::from(self.whole < blocks)
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
    fn a_longer_run_has_each_way_of_the_plans_blocks_as_often() {
        let scores = [1.0, 2.0, 4.0, 8.0];
        let (few, more) = (
            Coins::throw("any", 4, 4),
            Coins::throw_on("any", 9, (4, 30)),
        );
        assert_eq!((few.rows(), more.rows()), (16, 20_000));
        let count = |coins: &Coins, sum: f64| {
            let sums = coins.sums(&scores);
            sums.iter().filter(|one| (**one - sum).abs() < 1e-9).count()
        };
        for sum in [-15.0, -1.0, 15.0] {
            assert_eq!((count(&few, sum), count(&more, sum)), (1, 1250));
        }
        assert_eq!((more.beside(4), more.beside(5)), (0, 1));
        // The coins beyond the plan's are fair ones: 10,000 of either side are expected, give or take 70.
        let fifth = more.sums(&[0.0, 0.0, 0.0, 0.0, 1.0]);
        let up = fifth.iter().filter(|one| **one > 0.0).count();
        assert!((9500..=10_500).contains(&up), "{up}");
    }

    #[test]
    fn a_longer_run_of_thrown_coins_begins_with_the_same_ones() {
        let scores: Vec<f64> = (0..16).map(f64::from).collect();
        let (few, more) = (
            Coins::throw("k", 16, 20),
            Coins::throw_on("k", 16, (20, 60)),
        );
        assert_eq!(few.sums(&scores), more.sums(&scores));
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
