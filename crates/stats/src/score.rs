//! Robust scores: each block has bounded influence, however extreme it is.
//!
//! ```text
//! scale        s = 1.4826 median |x|                                  Hampel 1974
//! score        psi(u) = u (1 - (u / 4.685)^2)^2 within 4.685, else 0  Tukey's biweight: Beaton and Tukey 1974
//! order effect k = the 20 %-trimmed mean of second minus first        Tukey and McLaughlin 1963
//! estimate     the shift at which the scores sum to zero              Hodges and Lehmann 1963
//! ```
//! Everything here depends on sizes, or on which trial came second, never on which arm it was.

use crate::average::{less, median};
use crate::interim::is_one_way;

/// Beyond this many scales a block has no influence.
const MAX_SCALES: f64 = 4.685;

/// Converts a median absolute deviation of normal values to their standard deviation.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// Share of blocks trimmed at each end before the order effect is averaged.
const TRIM: f64 = 0.2;

/// Sizes whose spread is less than this share of their median count as repeated.
const MAX_REPEAT_SPREAD: f64 = 0.25;

/// With fewer blocks the order effect cannot be estimated.
const MIN_BLOCKS_FOR_ORDER: usize = 5;

/// Grid points between the lowest and the highest block at which a typical shift is searched for. Few blocks get
/// many, because their scores may sum to zero at several shifts.
const MAX_GRID: usize = 160;
const MIN_GRID: usize = 24;
const GRID_TIMES_BLOCKS: usize = 4096;

/// Bisection steps between two grid points.
const HALVINGS: u32 = 22;

/// A difference smaller than this is a rounding error.
const TINY: f64 = 1e-12;

/// The robust scale of values around zero.
pub fn scale(x: &[f64]) -> f64 {
    let sizes: Vec<f64> = x.iter().map(|value| value.abs()).collect();
    (MAD_TO_DEVIATION * median(&sizes)).max(TINY)
}

/// The scale for planning, which a large difference between the arms does not inflate.
pub fn planning_scale(x: &[f64]) -> f64 {
    let sizes: Vec<f64> = x.iter().map(|value| value.abs()).collect();
    let middle = median(&sizes);
    let spread: Vec<f64> = sizes.iter().map(|size| (size - middle).abs()).collect();
    (MAD_TO_DEVIATION * middle)
        .min(2.5 * median(&spread))
        .max(TINY)
}

/// The score of each value.
pub fn tukey(x: &[f64]) -> Vec<f64> {
    let scale = scale(x);
    x.iter().map(|value| biweight(value / scale)).collect()
}

/// Tukey's biweight: 0 beyond `MAX_SCALES`.
pub fn biweight(u: f64) -> f64 {
    if u.abs() < MAX_SCALES {
        u * (1.0 - (u / MAX_SCALES).powi(2)).powi(2)
    } else {
        0.0
    }
}

/// Values without the order effect, and that effect; `second[i]` is 1 if the arm ran second, else -1.
///
/// No effect is removed if the contrasts of the order repeat in size but not in sign, because then the arms differ. The
/// trimmed mean of a few such contrasts would count most of that difference as an order effect. The same applies if the
/// arm ran in one place of all blocks, where the whole difference would count as one.
pub fn centred(x: &[f64], second: &[f64]) -> (Vec<f64>, f64) {
    let contrasts: Vec<f64> = x.iter().zip(second).map(|(x, sign)| x * sign).collect();
    let effect = if can_estimate_order(second) && !is_arm_difference(&contrasts) {
        trimmed_mean(&contrasts)
    } else {
        0.0
    };
    let centred = contrasts
        .iter()
        .zip(second)
        .map(|(contrast, sign)| sign * (contrast - effect));
    (centred.collect(), effect)
}

/// Estimates from some blocks, whatever their order.
pub struct Typical {
    /// The shift of the arm.
    pub shift: f64,
    /// Effect of running second in a block.
    pub order_effect: f64,
    /// Residual of each block.
    pub rest: Vec<f64>,
}

/// The shift that the test of no difference would reject last: without it, the scores of the residuals sum to zero
/// (the estimate of a test by Hodges and Lehmann 1963). The order effect is estimated from the residuals. In the raw
/// contrasts it would include part of the arm's effect, unless the arm ran second as often as first.
pub fn typical(x: &[f64], second: &[f64]) -> Typical {
    let middle = hodges_lehmann(x);
    let residuals = |shift: f64| centred(&less(x, shift), second);
    let spread = scale(&less(x, middle));
    let shift = if spread <= TINY || !can_estimate_order(second) {
        middle
    } else {
        balanced(x, &|shift| residuals(shift).0).unwrap_or(middle)
    };
    let (rest, order_effect) = residuals(shift);
    Typical {
        shift,
        order_effect,
        rest,
    }
}

/// The shift at which the scores of the residuals sum to zero. Distant blocks score zero and the order effect may
/// switch on or off, so there may be several; the one with the smallest residuals is returned.
fn balanced(x: &[f64], residuals: &impl Fn(f64) -> Vec<f64>) -> Option<f64> {
    let is_above = |shift: f64| tukey(&residuals(shift)).iter().sum::<f64>() > 0.0;
    let size = |shift: f64| residuals(shift).iter().map(|rest| rest.abs()).sum::<f64>();
    let low = x.iter().copied().fold(f64::INFINITY, f64::min);
    let high = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let count = (GRID_TIMES_BLOCKS / x.len()).clamp(MIN_GRID, MAX_GRID);
    let places = (0..=count).map(|at| low + (high - low) * at as f64 / count as f64);
    let places: Vec<(f64, bool)> = places.map(|place| (place, is_above(place))).collect();
    let mut best: Option<(f64, f64)> = None;
    for pair in places.windows(2).filter(|pair| pair[0].1 && !pair[1].1) {
        let (mut below, mut above) = (pair[0].0, pair[1].0);
        for _ in 0..HALVINGS {
            let between = f64::midpoint(below, above);
            if is_above(between) {
                below = between;
            } else {
                above = between;
            }
        }
        let shift = f64::midpoint(below, above);
        let size = size(shift);
        if best.is_none_or(|(smallest, _)| size.total_cmp(&smallest).is_lt()) {
            best = Some((size, shift));
        }
    }
    best.map(|(_, shift)| shift)
}

/// Whether there are enough blocks, in both orders, to estimate the order effect.
fn can_estimate_order(second: &[f64]) -> bool {
    MIN_BLOCKS_FOR_ORDER <= second.len() && !is_one_way(second)
}

/// Whether the contrasts of the order repeat in size but not in sign, so that the arms differ.
fn is_arm_difference(contrasts: &[f64]) -> bool {
    let sizes: Vec<f64> = contrasts.iter().map(|contrast| contrast.abs()).collect();
    let middle = median(&sizes);
    let spread: Vec<f64> = sizes.iter().map(|size| (size - middle).abs()).collect();
    let has_both_signs = contrasts.iter().any(|contrast| *contrast > 0.0)
        && contrasts.iter().any(|contrast| *contrast < 0.0);
    has_both_signs && median(&spread) < MAX_REPEAT_SPREAD * middle
}

fn trimmed_mean(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let cut = (TRIM * values.len() as f64) as usize;
    // Sorted, so that the kept values are always summed in the same order.
    if cut > 0 {
        values.select_nth_unstable_by(cut, f64::total_cmp);
        let inner = &mut values[cut..];
        let kept = inner.len() - cut;
        inner.select_nth_unstable_by(kept, f64::total_cmp);
    }
    let end = values.len() - cut;
    let kept = &mut values[cut..end];
    kept.sort_unstable_by(f64::total_cmp);
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The median of the means of all pairs of values, each value paired with itself too: Hodges and Lehmann 1963. The
/// means are counted by bisection instead of listed, because thousands of values have too many.
pub fn hodges_lehmann(x: &[f64]) -> f64 {
    let mut sorted = x.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() * (sorted.len() + 1) / 2;
    let half = count / 2;
    if count % 2 == 1 {
        mean_of_rank(&sorted, half)
    } else {
        f64::midpoint(mean_of_rank(&sorted, half - 1), mean_of_rank(&sorted, half))
    }
}

/// The mean of two sorted values with `rank` smaller ones, by bisection over all numbers between the ends.
fn mean_of_rank(sorted: &[f64], rank: usize) -> f64 {
    let (mut low, mut high) = (ordinal(sorted[0]), ordinal(sorted[sorted.len() - 1]));
    while low < high {
        let middle = low + (high - low) / 2;
        if rank < means_up_to(sorted, from_ordinal(middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    from_ordinal(low)
}

/// How many means of two sorted values are at most `value`.
fn means_up_to(sorted: &[f64], value: f64) -> usize {
    let (mut count, mut end) = (0, sorted.len());
    for (index, first) in sorted.iter().enumerate() {
        // The larger the first value, the fewer partners qualify.
        while index < end
            && f64::midpoint(*first, sorted[end - 1])
                .total_cmp(&value)
                .is_gt()
        {
            end -= 1;
        }
        if end <= index {
            break;
        }
        count += end - index;
    }
    count
}

/// The position of a number among all numbers, in the order of `total_cmp`.
fn ordinal(value: f64) -> i128 {
    let bits = value.to_bits().cast_signed();
    i128::from(bits ^ (((bits >> 63).cast_unsigned() >> 1).cast_signed()))
}

fn from_ordinal(ordinal: i128) -> f64 {
    let bits = i64::try_from(ordinal).expect("an ordinal between those of two numbers");
    f64::from_bits((bits ^ (((bits >> 63).cast_unsigned() >> 1).cast_signed())).cast_unsigned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::design::keyed;

    #[test]
    fn counted_means_have_the_median_of_listed_ones() {
        for count in [1, 2, 3, 12, 77, 300] {
            let mut prng = keyed(&format!("means {count}"));
            let mut value = || {
                let even = prng.bits() as f64 / u64::MAX as f64 - 0.5;
                // Some of them the same, some zero.
                if even.abs() < 0.1 {
                    0.0
                } else {
                    (even * 50.0).round() / 300.0
                }
            };
            let values: Vec<f64> = (0..count).map(|_| value()).collect();
            let each = values.iter().enumerate();
            let means = each.flat_map(|(index, value)| {
                let others = &values[index..];
                others.iter().map(|other| f64::midpoint(*value, *other))
            });
            let listed = median(&means.collect::<Vec<f64>>());
            let counted = hodges_lehmann(&values);
            assert_eq!(counted.to_bits(), listed.to_bits(), "{count}");
        }
    }

    /// Twelve blocks, one of them with a trial that was slow by 30 %.
    pub const D: [f64; 12] = [
        -0.031, -0.012, 0.004, -0.055, -0.021, -0.300, -0.018, 0.027, -0.042, -0.009, -0.036,
        -0.025,
    ];

    #[track_caller]
    pub fn close(got: f64, want: f64, digits: i32) {
        let within = 0.5001 * 10f64.powi(-digits);
        assert!((got - want).abs() <= within, "{got} is not {want}");
    }

    #[test]
    fn scale_and_scores_are_those_of_the_reference() {
        close(scale(&D), 0.038_547_600_0, 10);
        let want = [
            -0.757_506_86,
            -0.308_560_57,
            0.103_666_02,
            -1.174_410_14,
            -0.530_148_09,
            0.0,
            -0.457_723_61,
            0.669_470_71,
            -0.974_889_23,
            -0.232_319_31,
            -0.861_164_02,
            -0.623_930_54,
        ];
        for (got, want) in tukey(&D).into_iter().zip(want) {
            close(got, want, 8);
        }
    }

    /// The sum of scores over the root of the sum of squares.
    fn z(scores: &[f64]) -> f64 {
        scores.iter().sum::<f64>() / scores.iter().map(|score| score * score).sum::<f64>().sqrt()
    }

    #[test]
    fn standardised_scores_are_those_of_the_reference() {
        close(z(&tukey(&D)), -2.272_009_463_8, 10);
        for (shift, want) in [
            (0.02, -0.180_207_94),
            (-0.02, -2.945_979_24),
            (0.05, 2.802_947_55),
            (-0.05, -3.324_688_78),
        ] {
            close(z(&tukey(&D.map(|value| value + shift))), want, 8);
        }
    }

    #[test]
    fn the_order_effect_is_taken_off_as_in_the_reference() {
        let second = [
            1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0,
        ];
        let want = [
            -0.021_875, -0.021_125, -0.005_125, -0.045_875, -0.011_875, -0.309_125, -0.008_875,
            0.017_875, -0.032_875, 0.000_125, -0.045_125, -0.034_125,
        ];
        for (got, want) in centred(&D, &second).0.into_iter().zip(want) {
            close(got, want, 9);
        }
    }

    #[test]
    fn a_difference_that_repeats_is_no_order_effect() {
        let second = [1.0, 1.0, 1.0, 1.0, 1.0, -1.0];
        let x = [0.100, 0.101, 0.099, 0.100, 0.102, 0.098];
        assert_eq!(centred(&x, &second), (x.to_vec(), 0.0));
        // The same sizes, and the second trial slower every time: that is the slot's.
        let slot: Vec<f64> = x.iter().zip(second).map(|(x, sign)| -x * sign).collect();
        assert!((centred(&slot, &second).1 + 0.1).abs() < 0.001);
    }

    #[test]
    fn the_order_effect_is_no_part_of_the_estimate_however_uneven_the_order() {
        // Pages of a shop under two kernels, 1 to 3 % more in each block; the arm ran second in one of the six.
        let x = [0.0213, 0.0318, 0.0211, 0.0318, 0.0213, 0.0106];
        let second = [-1.0, -1.0, 1.0, -1.0, -1.0, -1.0];
        let estimate = typical(&x, &second);
        assert!(
            (0.019..0.025).contains(&estimate.shift),
            "{}",
            estimate.shift
        );
        assert!(
            estimate.order_effect.abs() < 0.003,
            "{}",
            estimate.order_effect
        );
        // What came second was slower by 5 %, and the arms are alike but for 1 %.
        let second = [-1.0, 1.0, 1.0, -1.0, -1.0, 1.0];
        let slot: Vec<f64> = second.iter().map(|sign| 0.01 - 0.05 * sign).collect();
        let estimate = typical(&slot, &second);
        close(estimate.shift, 0.01, 6);
        close(estimate.order_effect, -0.05, 6);
        assert!(estimate.rest.iter().all(|rest| rest.abs() < 1e-6));
    }

    #[test]
    fn the_estimate_is_right_beside_an_order_effect_of_many_scales() {
        // An effect of 3 %, -5 % in the second trial, and noise of 0.5 %. At a shift of -1.2 % the scores sum to
        // zero too, but the residuals are far larger.
        let x = [
            0.0729, -0.0292, -0.0196, -0.0203, 0.0777, 0.0794, -0.0176, -0.0210, -0.0248, -0.0190,
            -0.0203, -0.0219,
        ];
        let second = [
            -1.0, 1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
        ];
        let typical = typical(&x, &second);
        assert!((0.027..0.029).contains(&typical.shift), "{}", typical.shift);
        assert!((-0.051..-0.047).contains(&typical.order_effect));
    }

    #[test]
    fn over_all_orders_the_estimate_is_the_truth() {
        let noise = [0.3, -1.1, 0.8, -0.2, 1.4, -0.9, 0.1, -0.4];
        for (truth, slot) in [(0.0, 0.0), (2.0, 0.0), (2.0, 1.5), (5.0, 1.5)] {
            let (mut sum, mut count) = (0.0, 0.0);
            for order in 1_u32..255 {
                let second: Vec<f64> = (0..8)
                    .map(|block| if order >> block & 1 == 1 { 1.0 } else { -1.0 })
                    .collect();
                // Noise has both signs equally often, or its typical value would be part of the truth.
                for side in [1.0, -1.0] {
                    let each = second.iter().zip(noise);
                    let x: Vec<f64> = each
                        .map(|(sign, noise)| truth + sign * slot + side * noise)
                        .collect();
                    sum += typical(&x, &second).shift;
                    count += 1.0;
                }
            }
            let mean: f64 = sum / count;
            assert!((mean - truth).abs() < 0.05, "{truth} {slot}: {mean}");
        }
    }

    #[test]
    fn the_estimate_does_not_heed_one_slow_trial() {
        close(hodges_lehmann(&D), -0.024_75, 10);
    }
}
