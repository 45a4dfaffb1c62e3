//! Randomization: in which order a block's two trials ran, and all the orders in which they might have run.
//!
//! Under "no difference" the order is all that was random, so flipping the signs of the blocks' scores as the design might
//! have drawn them gives the null distribution (Fisher 1935): whatever a machine does to its trials, a verdict is wrong as
//! often as the error rate says.

use std::sync::Arc;

use crate::design::keyed;

/// Rows that are resampled where there are too many for all of them, if the error rate is not so low that it needs more.
const ROWS: usize = 20_000;

/// Of the rows so many at the least may cross at an error rate, as far as memory goes.
const FEWEST_CROSSING: f64 = 4.0;

/// The most rows: one of a million is as rare as an error rate can be.
const MOST_ROWS: usize = 1_000_000;

/// The most memory that rows beyond `ROWS` may take.
const MOST_BYTES: usize = 1 << 27;

/// Up to so many blocks all sign flips are enumerated: 2^14 of them are fewer than `ROWS`.
const MOST_ENUMERATED: usize = 14;

/// Rows whose sums stay in a CPU's nearest cache while all columns are added up.
const CACHED: usize = 2048;

/// Columns in a byte.
const BYTE: usize = 8;

/// What randomization might have given instead of what it gave.
pub trait Draws {
    /// How many draws there are.
    fn rows(&self) -> usize;

    /// Draws that count beside those that are here, for values of so many columns.
    fn uncounted(&self, columns: usize) -> usize;

    /// The statistic of the values as they are.
    fn seen(&self, values: &[f64]) -> f64;

    /// The statistic in each draw.
    fn sums(&self, values: &[f64]) -> Vec<f64>;
}

impl Draws for SignFlips {
    fn rows(&self) -> usize {
        self.rows
    }

    fn uncounted(&self, columns: usize) -> usize {
        Self::uncounted(self, columns)
    }

    fn seen(&self, values: &[f64]) -> f64 {
        values.iter().sum()
    }

    fn sums(&self, values: &[f64]) -> Vec<f64> {
        Self::sums(self, values)
    }
}

/// Draws of a group out of all trials: those of the first group come first among a row's values, then the others.
#[derive(Debug)]
pub struct GroupDraws {
    /// The places of the group that is summed as it is: the smaller one.
    own: std::ops::Range<usize>,
    /// Places of each draw, one after the other.
    places: Vec<u16>,
    /// Whether all draws that there are are here.
    is_enumerated: bool,
}

impl GroupDraws {
    /// Draws of groups of these sizes, fixed by `key`: so many that `error_rate` can be told. Both have a trial at least.
    pub fn draw(key: &str, sizes: [usize; 2], error_rate: f64) -> Self {
        let all = sizes[0] + sizes[1];
        let own = if sizes[0] <= sizes[1] {
            0..sizes[0]
        } else {
            sizes[0]..all
        };
        let rows = resampled(own.len() * size_of::<u16>(), error_rate);
        let is_enumerated = ways(sizes[0], sizes[1]) <= rows as f64;
        let places = if is_enumerated {
            every_group(all, own.len())
        } else {
            some_groups(key, all, (rows, own.len()))
        };
        Self {
            own,
            places,
            is_enumerated,
        }
    }

    /// The smallest p-value that groups of these sizes can have.
    pub fn least_p_value(sizes: [usize; 2]) -> f64 {
        // Where both are of one size, the other half is as far from the mean.
        let as_far = if sizes[0] == sizes[1] { 2.0 } else { 1.0 };
        as_far / ways(sizes[0], sizes[1])
    }
}

impl Draws for GroupDraws {
    fn rows(&self) -> usize {
        self.places.len() / self.own.len()
    }

    fn uncounted(&self, _: usize) -> usize {
        usize::from(!self.is_enumerated)
    }

    fn seen(&self, values: &[f64]) -> f64 {
        values[self.own.clone()].iter().sum()
    }

    fn sums(&self, values: &[f64]) -> Vec<f64> {
        let draws = self.places.chunks_exact(self.own.len());
        let sum = |places: &[u16]| places.iter().map(|place| values[usize::from(*place)]).sum();
        draws.map(sum).collect()
    }
}

/// Ways of choosing which of all trials are the first group's.
pub fn ways(first: usize, second: usize) -> f64 {
    let [small, large] = [first.min(second), first.max(second)];
    (1..=small)
        .map(|i| (large + i) as f64 / i as f64)
        .product::<f64>()
        .round()
}

/// All ways to take so many places, each in rising order.
fn every_group(all: usize, taken: usize) -> Vec<u16> {
    let mut places = Vec::new();
    let mut group: Vec<usize> = (0..taken).collect();
    loop {
        places.extend(group.iter().map(|place| *place as u16));
        let Some(last) = (0..taken).rfind(|at| group[*at] < all - taken + at) else {
            return places;
        };
        group[last] += 1;
        for at in last + 1..taken {
            group[at] = group[at - 1] + 1;
        }
    }
}

fn some_groups(key: &str, all: usize, (rows, taken): (usize, usize)) -> Vec<u16> {
    let mut prng = keyed(key);
    let mut order: Vec<u16> = (0..all as u16).collect();
    let mut places = Vec::with_capacity(rows * taken);
    for _ in 0..rows {
        for at in 0..taken {
            order.swap(at, at + prng.below((all - at) as u64) as usize);
        }
        places.extend(&order[..taken]);
    }
    places
}

/// Rows of sign flips, one column per block; the first columns of every look are those of all later looks.
#[derive(Debug, Clone)]
pub struct SignFlips {
    /// One byte per row for each eight columns; a set bit is a sign of -1.
    bytes: Arc<[Vec<u8>]>,
    rows: usize,
    /// Of so many blocks the rows hold all sign flips there are, each as often: those that were drawn among them.
    enumerated: usize,
}

impl SignFlips {
    /// Sign flips of `blocks` blocks, fixed by `key`: so many that `error_rate` can be told.
    pub fn draw(key: &str, blocks: usize, error_rate: f64) -> Self {
        Self::draw_extended(key, blocks, (blocks, blocks), error_rate)
    }

    /// The same for the first `blocks` of a run that was to have `planned` blocks at the most and may have `most`: its first `planned` columns
    /// say what they said before, so that no look of the plan's comes out otherwise.
    pub fn draw_extended(
        key: &str,
        blocks: usize,
        (planned, most): (usize, usize),
        error_rate: f64,
    ) -> Self {
        // A run directory may hold more blocks than it may have; no look reaches beyond those.
        let blocks = blocks.min(most);
        let enumerated = enumerated(planned);
        let rows = rows((planned, most), error_rate);
        let column = |byte| match enumerated.saturating_sub(byte * BYTE) {
            0 => drawn(key, byte, rows),
            left if BYTE <= left || planned == most => counted(byte, rows),
            left => {
                let mask = (1u8 << left) - 1;
                let both = counted(byte, rows).into_iter().zip(drawn(key, byte, rows));
                both.map(|(count, random)| count & mask | random & !mask)
                    .collect()
            }
        };
        Self {
            bytes: (0..blocks.div_ceil(BYTE)).map(column).collect(),
            rows,
            enumerated,
        }
    }

    /// Rows that count beside those that are here, at `blocks` blocks: the order that was drawn is one of all orders,
    /// whether it is among the rows or not (Phipson and Smyth 2010).
    pub fn uncounted(&self, blocks: usize) -> usize {
        usize::from(self.enumerated < blocks)
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The sum of `scores` in each row, every score taken with the row's sign.
    ///
    /// Eight scores have 256 sums, which are worked out once; a row then costs one look-up for eight blocks. Four columns at a time are
    /// added to a row, so that its sum is read and written more rarely.
    pub fn sums(&self, scores: &[f64]) -> Vec<f64> {
        let tables: Vec<_> = scores.chunks(BYTE).map(table).collect();
        let mut sums = vec![0.0; self.rows];
        for (few, sums) in sums.chunks_mut(CACHED).enumerate() {
            let first = few * CACHED;
            let rows = first..first + sums.len();
            for (tables, columns) in tables.chunks(4).zip(self.bytes.chunks(4)) {
                if let ([a, b, c, d], [w, x, y, z]) = (tables, columns) {
                    let [w, x, y, z] = [w, x, y, z].map(|column| column[rows.clone()].iter());
                    let signs = w.zip(x).zip(y).zip(z);
                    for (sum, (((w, x), y), z)) in sums.iter_mut().zip(signs) {
                        *sum = *sum
                            + a[usize::from(*w)]
                            + b[usize::from(*x)]
                            + c[usize::from(*y)]
                            + d[usize::from(*z)];
                    }
                    continue;
                }
                for (table, column) in tables.iter().zip(columns) {
                    for (sum, signs) in sums.iter_mut().zip(&column[rows.clone()]) {
                        *sum += table[usize::from(*signs)];
                    }
                }
            }
        }
        sums
    }
}

/// The signs of eight blocks where all sign flips are enumerated, a byte for each row.
fn counted(byte: usize, rows: usize) -> Vec<u8> {
    (0..rows).map(|row| (row >> (byte * BYTE)) as u8).collect()
}

/// The same where they are drawn at random.
fn drawn(key: &str, byte: usize, rows: usize) -> Vec<u8> {
    let mut prng = keyed(&format!("{key}\n{byte}"));
    let mut signs = Vec::with_capacity(rows + BYTE);
    while signs.len() < rows {
        signs.extend(prng.bits().to_le_bytes());
    }
    signs.truncate(rows);
    signs
}

/// Of how many blocks all sign flips are among the rows.
fn enumerated(planned: usize) -> usize {
    if planned <= MOST_ENUMERATED {
        planned
    } else {
        0
    }
}

/// The rows for a run that was to have `planned` blocks and may have `most`, at an error rate. Where they are resampled, `most` does not
/// count, so that they stay those of the plan.
fn rows((planned, most): (usize, usize), error_rate: f64) -> usize {
    let columns = enumerated(planned);
    if columns > 0 && planned == most {
        return 1 << columns;
    }
    let rows = resampled(planned.div_ceil(BYTE), error_rate);
    rows.div_ceil(1 << columns) << columns
}

/// How many rows of so many bytes an error rate needs.
pub fn resampled(bytes: usize, error_rate: f64) -> usize {
    let affordable = (MOST_BYTES / bytes.max(1)).clamp(ROWS, MOST_ROWS);
    ((FEWEST_CROSSING / error_rate) as usize).clamp(ROWS, affordable)
}

/// The smallest p-value that is to be expected of so many blocks, when all signs are alike.
pub fn least_p_value(blocks: usize, (planned, most): (usize, usize), error_rate: f64) -> f64 {
    let alike = (1.0 - blocks as f64).exp2();
    if blocks <= enumerated(planned) {
        alike
    } else {
        // The order that was drawn counts beside the rows.
        alike + 1.0 / rows((planned, most), error_rate) as f64
    }
}

/// The sums of up to eight scores with all signs that they may have.
fn table(scores: &[f64]) -> [f64; 256] {
    let signed = |signs: usize, (column, score): (usize, &f64)| {
        if signs >> column & 1 == 0 {
            *score
        } else {
            -score
        }
    };
    std::array::from_fn(|signs| {
        let each = scores.iter().enumerate();
        each.map(|score| signed(signs, score)).sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_group_holds_every_way_once() {
        let sums = SignFlips::draw("any", 3, 0.05).sums(&[1.0, 2.0, 4.0]);
        let mut sums: Vec<i32> = sums.iter().map(|sum| *sum as i32).collect();
        sums.sort_unstable();
        assert_eq!(sums, [-7, -5, -3, -1, 1, 3, 5, 7]);
    }

    #[test]
    fn a_longer_run_has_each_sign_flip_of_the_plans_blocks_as_often() {
        let scores = [1.0, 2.0, 4.0, 8.0];
        let (few, more) = (
            SignFlips::draw("any", 4, 0.05),
            SignFlips::draw_extended("any", 9, (4, 30), 0.05),
        );
        assert_eq!((few.rows(), more.rows()), (16, 20_000));
        let count = |flips: &SignFlips, sum: f64| {
            let sums = flips.sums(&scores);
            sums.iter().filter(|one| (**one - sum).abs() < 1e-9).count()
        };
        for sum in [-15.0, -1.0, 15.0] {
            assert_eq!((count(&few, sum), count(&more, sum)), (1, 1250));
        }
        assert_eq!((more.uncounted(4), more.uncounted(5)), (0, 1));
        // The signs beyond the plan's are fair ones: 10,000 of either side are expected, give or take 70.
        let fifth = more.sums(&[0.0, 0.0, 0.0, 0.0, 1.0]);
        let up = fifth.iter().filter(|one| **one > 0.0).count();
        assert!((9500..=10_500).contains(&up), "{up}");
    }

    #[test]
    fn a_longer_run_of_resampled_flips_begins_with_the_same_ones() {
        let scores: Vec<f64> = (0..16).map(f64::from).collect();
        let (few, more) = (
            SignFlips::draw_extended("k", 16, (20, 20), 0.05),
            SignFlips::draw_extended("k", 16, (20, 60), 0.05),
        );
        assert_eq!(few.sums(&scores), more.sums(&scores));
    }

    #[test]
    fn later_looks_see_the_same_flips() {
        let scores: Vec<f64> = (0..40).map(f64::from).collect();
        let draw = |key, blocks| SignFlips::draw_extended(key, blocks, (40, 40), 0.05);
        let (early, late) = (draw("k", 9), draw("k", 40));
        assert_eq!(early.sums(&scores[..9]), late.sums(&scores[..9]));
        assert_ne!(late.sums(&scores), draw("l", 40).sums(&scores));
    }

    #[test]
    fn every_group_is_drawn_once_and_the_smaller_one_is_summed() {
        let draws = GroupDraws::draw("any", [3, 2], 0.05);
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        assert!((draws.seen(&values) - 24.0).abs() < 1e-9);
        let mut sums: Vec<i32> = draws.sums(&values).iter().map(|sum| *sum as i32).collect();
        sums.sort_unstable();
        assert_eq!(sums, [3, 5, 6, 9, 10, 12, 17, 18, 20, 24]);
        assert_eq!((draws.rows(), draws.uncounted(5)), (10, 0));
        let least = [[3, 2], [3, 3], [9, 1]].map(GroupDraws::least_p_value);
        assert!(
            least.iter().all(|least| (least - 0.1).abs() < 1e-9),
            "{least:?}"
        );
    }

    #[test]
    fn of_too_many_groups_some_are_drawn_each_place_as_often() {
        let draws = GroupDraws::draw("any", [10, 20], 0.05);
        assert_eq!((draws.rows(), draws.uncounted(30)), (ROWS, 1));
        for place in [0, 9, 29] {
            let mut values = [0.0; 30];
            values[place] = 1.0;
            let count: f64 = draws.sums(&values).iter().sum();
            // A third of the draws have it, give or take 67.
            assert!((count - ROWS as f64 / 3.0).abs() < 400.0, "{count}");
        }
    }

    #[test]
    fn a_low_error_rate_has_as_many_groups_as_it_needs() {
        // 20 and 10 trials may be 30,045,015 groups, 8 and 9 of them 24,310.
        let rows = |sizes| GroupDraws::draw("any", sizes, 0.000_1).rows();
        assert_eq!([[20, 10], [8, 9]].map(rows), [40_000, 24_310]);
    }

    #[test]
    fn signs_are_fair() {
        let sums = SignFlips::draw("fair", 100, 0.05).sums(&[1.0; 100]);
        let mean = sums.iter().sum::<f64>() / ROWS as f64;
        let square = sums.iter().map(|sum| sum * sum).sum::<f64>() / ROWS as f64;
        assert!(
            mean.abs() < 0.3 && (square - 100.0).abs() < 4.0,
            "{mean} {square}"
        );
    }
}
