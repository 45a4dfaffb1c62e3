//! Randomization: the order of a block's two trials, and all orders that could have been drawn.
//!
//! Under "no difference" only the order was random. Flipping the signs of the blocks' scores as the design could have
//! drawn them therefore gives the null distribution (Fisher 1935), whatever a machine does to its trials.

use std::sync::Arc;

use crate::design::keyed;

/// Number of resampled rows, unless a low error rate needs more.
const ROWS: usize = 20_000;

/// At least this many rows must be able to cross at an error rate, as far as memory permits.
const FEWEST_CROSSING: f64 = 4.0;

/// Most rows: one in a million is the lowest useful error rate.
const MOST_ROWS: usize = 1_000_000;

/// Most memory for rows beyond `ROWS`, in bytes.
const MOST_BYTES: usize = 1 << 27;

/// Up to this many blocks all sign flips are enumerated: 2^14 is less than `ROWS`.
const MOST_ENUMERATED: usize = 14;

/// Rows whose sums fit into a CPU's L1 cache while all columns are added.
const CACHED: usize = 2048;

/// Columns per byte.
const BYTE: usize = 8;

/// Draws from the null distribution.
pub trait Draws {
    /// How many draws there are.
    fn rows(&self) -> usize;

    /// Draws that count in addition to the rows, for values of this many columns.
    fn uncounted(&self, columns: usize) -> usize;

    /// The observed statistic of the values.
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

/// Draws of a group out of all trials. In a row of values those of the first group come first.
#[derive(Debug)]
pub struct GroupDraws {
    /// Places of the smaller group, whose values are summed.
    summed: std::ops::Range<usize>,
    /// Places of all draws, concatenated.
    places: Vec<u16>,
    /// Whether the draws are all possible ones.
    is_enumerated: bool,
}

impl GroupDraws {
    /// Draws groups of these sizes, fixed by `key`, enough to resolve `error_rate`. Both sizes are at least 1.
    pub fn draw(key: &str, sizes: [usize; 2], error_rate: f64) -> Self {
        let all = sizes[0] + sizes[1];
        let summed = if sizes[0] <= sizes[1] {
            0..sizes[0]
        } else {
            sizes[0]..all
        };
        let rows = resampled(summed.len() * size_of::<u16>(), error_rate);
        let is_enumerated = ways(sizes[0], sizes[1]) <= rows as f64;
        let places = if is_enumerated {
            every_group(all, summed.len())
        } else {
            some_groups(key, all, rows, summed.len())
        };
        Self {
            summed,
            places,
            is_enumerated,
        }
    }

    /// The smallest p-value that groups of these sizes can have.
    pub fn least_p_value(sizes: [usize; 2]) -> f64 {
        // In two groups of one size, the complement is as extreme.
        let as_extreme = if sizes[0] == sizes[1] { 2.0 } else { 1.0 };
        as_extreme / ways(sizes[0], sizes[1])
    }
}

impl Draws for GroupDraws {
    fn rows(&self) -> usize {
        self.places.len() / self.summed.len()
    }

    fn uncounted(&self, _: usize) -> usize {
        usize::from(!self.is_enumerated)
    }

    fn seen(&self, values: &[f64]) -> f64 {
        values[self.summed.clone()].iter().sum()
    }

    fn sums(&self, values: &[f64]) -> Vec<f64> {
        let draws = self.places.chunks_exact(self.summed.len());
        let sum = |places: &[u16]| places.iter().map(|place| values[usize::from(*place)]).sum();
        draws.map(sum).collect()
    }
}

/// Number of ways to choose the first group among all trials.
pub fn ways(first: usize, second: usize) -> f64 {
    let [small, large] = [first.min(second), first.max(second)];
    (1..=small)
        .map(|i| (large + i) as f64 / i as f64)
        .product::<f64>()
        .round()
}

/// All ways to choose `taken` places, each in rising order.
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

/// Resampled choices of `taken` places, one per row.
fn some_groups(key: &str, all: usize, rows: usize, taken: usize) -> Vec<u16> {
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

/// Rows of sign flips with a column per block; an earlier analysis uses the first columns of a later one.
#[derive(Debug, Clone)]
pub struct SignFlips {
    /// Per eight columns, one byte per row; a set bit means a sign of -1.
    bytes: Arc<[Vec<u8>]>,
    rows: usize,
    /// The rows contain all sign flips of this many blocks, each equally often.
    enumerated: usize,
}

impl SignFlips {
    /// Sign flips of `blocks` blocks, fixed by `key`, enough to resolve `error_rate`.
    pub fn draw(key: &str, blocks: usize, error_rate: f64) -> Self {
        Self::draw_extended(key, blocks, blocks, blocks, error_rate)
    }

    /// Like `draw` for a run that was planned with `planned` blocks and may have `most`. Its first `planned` columns are
    /// those of the plan, so that no analysis of the plan changes.
    pub fn draw_extended(
        key: &str,
        blocks: usize,
        planned: usize,
        most: usize,
        error_rate: f64,
    ) -> Self {
        // A run directory may hold more blocks than allowed; no analysis uses them.
        let blocks = blocks.min(most);
        let enumerated = enumerated(planned);
        let rows = rows(planned, most, error_rate);
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

    /// Rows that count in addition, at `blocks` blocks. The drawn order is one of all orders, whether it is among
    /// the rows or not (Phipson and Smyth 2010).
    pub fn uncounted(&self, blocks: usize) -> usize {
        usize::from(self.enumerated < blocks)
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The sum of `scores` in each row, with the row's signs.
    ///
    /// Eight scores have 256 sums, which are tabulated once; a row then needs one look-up per eight blocks. Four tables
    /// are added at a time, so that a row's sum is read and written less often.
    pub fn sums(&self, scores: &[f64]) -> Vec<f64> {
        let mut sums = Vec::new();
        self.sums_into(scores, &mut sums);
        sums
    }

    /// Like `sums`, into a vector whose contents and memory are reused.
    pub fn sums_into(&self, scores: &[f64], sums: &mut Vec<f64>) {
        let tables: Vec<_> = scores.chunks(BYTE).map(table).collect();
        sums.clear();
        sums.resize(self.rows, 0.0);
        for (chunk, sums) in sums.chunks_mut(CACHED).enumerate() {
            let first = chunk * CACHED;
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
    }
}

/// Enumerated signs of eight blocks, a byte per row.
fn counted(byte: usize, rows: usize) -> Vec<u8> {
    (0..rows).map(|row| (row >> (byte * BYTE)) as u8).collect()
}

/// Random signs of eight blocks, a byte per row.
fn drawn(key: &str, byte: usize, rows: usize) -> Vec<u8> {
    let mut prng = keyed(&format!("{key}\n{byte}"));
    let mut signs = Vec::with_capacity(rows + BYTE);
    while signs.len() < rows {
        signs.extend(prng.bits().to_le_bytes());
    }
    signs.truncate(rows);
    signs
}

/// Number of blocks whose sign flips are all among the rows.
fn enumerated(planned: usize) -> usize {
    if planned <= MOST_ENUMERATED {
        planned
    } else {
        0
    }
}

/// Number of rows for a run planned with `planned` blocks that may have `most`. If they are resampled, `most` has no
/// influence, so that they stay those of the plan.
fn rows(planned: usize, most: usize, error_rate: f64) -> usize {
    let columns = enumerated(planned);
    if columns > 0 && planned == most {
        return 1 << columns;
    }
    let rows = resampled(planned.div_ceil(BYTE), error_rate);
    rows.div_ceil(1 << columns) << columns
}

/// Number of rows of `bytes` bytes that an error rate needs.
pub fn resampled(bytes: usize, error_rate: f64) -> usize {
    let affordable = (MOST_BYTES / bytes.max(1)).clamp(ROWS, MOST_ROWS);
    ((FEWEST_CROSSING / error_rate) as usize).clamp(ROWS, affordable)
}

/// The smallest expected p-value of this many blocks, when all signs agree.
pub fn least_p_value(blocks: usize, planned: usize, most: usize, error_rate: f64) -> f64 {
    let agreeing = (1.0 - blocks as f64).exp2();
    if blocks <= enumerated(planned) {
        agreeing
    } else {
        // The drawn order counts in addition to the rows.
        agreeing + 1.0 / rows(planned, most, error_rate) as f64
    }
}

/// The sums of up to eight scores with all combinations of signs.
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
    fn enumerated_flips_contain_each_combination_once() {
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
            SignFlips::draw_extended("any", 9, 4, 30, 0.05),
        );
        assert_eq!((few.rows(), more.rows()), (16, 20_000));
        let count = |flips: &SignFlips, sum: f64| {
            let sums = flips.sums(&scores);
            sums.iter()
                .filter(|other| (**other - sum).abs() < 1e-9)
                .count()
        };
        for sum in [-15.0, -1.0, 15.0] {
            assert_eq!((count(&few, sum), count(&more, sum)), (1, 1250));
        }
        assert_eq!((more.uncounted(4), more.uncounted(5)), (0, 1));
        // The signs beyond the plan's are fair ones: 10,000 of either side are expected, give or take 70.
        let fifth = more.sums(&[0.0, 0.0, 0.0, 0.0, 1.0]);
        let up = fifth.iter().filter(|sum| **sum > 0.0).count();
        assert!((9500..=10_500).contains(&up), "{up}");
    }

    #[test]
    fn a_longer_run_of_resampled_flips_begins_with_the_same_ones() {
        let scores: Vec<f64> = (0..16).map(f64::from).collect();
        let (few, more) = (
            SignFlips::draw_extended("k", 16, 20, 20, 0.05),
            SignFlips::draw_extended("k", 16, 20, 60, 0.05),
        );
        assert_eq!(few.sums(&scores), more.sums(&scores));
    }

    #[test]
    fn later_analyses_see_the_same_flips() {
        let scores: Vec<f64> = (0..40).map(f64::from).collect();
        let draw = |key, blocks| SignFlips::draw_extended(key, blocks, 40, 40, 0.05);
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
