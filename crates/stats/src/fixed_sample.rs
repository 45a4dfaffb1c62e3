//! The verdict on figures that others measured. All of them exist before the analysis, so one analysis spends all of the error.
//!
//! ```text
//! paired in random order   the rule for runs, with a single analysis; all four verdicts
//! paired                   interval by inverting the sign-flip test of Tukey scores; the order may explain a
//!                          difference: better and worse only beyond the margin, never equivalent
//! unpaired                 interval of the shift by inverting the rank-sum test (Mann and Whitney 1947; Hodges and
//!                          Lehmann 1963); better and worse only beyond the margin, never equivalent
//! ```
//! Figures that are identical in every run are equivalent in any design, because no drift repeats them exactly.

use plan::Design;
use record::metric::Direction;
use record::verdict::reason::{Confounder, SampleReason, SampleUnit};
use record::verdict::{Pair, Verdict};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::average::{less, median};
use crate::contrast::{Contrasts, Kind};
use crate::interim;
use crate::interim::fewest_blocks;
use crate::inversion::{Search, interval};
use crate::randomization::{SignFlips, ways};
use crate::rule;
use crate::rule::Series;
use crate::score::{hodges_lehmann, scale, tukey};

/// How the interval is searched for; one test is cheap.
pub const SEARCH: Search = Search {
    tries: 17,
    halvings: 24,
};

/// Largest count of ways to mix two samples that is exact in `f64`.
const MAX_EXACT: f64 = 9.0e15;

/// When a difference counts as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Differences below this are called equivalent; a fraction.
    pub margin: f64,
    /// Accepted probability of a wrong verdict for this comparison; a fraction.
    pub error_rate: f64,
    /// Seed of the resampled sign flips, if there are too many to enumerate.
    pub seed: u64,
}

/// The verdict on an arm.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleResult {
    /// The verdict.
    pub verdict: Verdict,
    /// The arm against the baseline.
    pub change: Option<Change>,
    /// Reason of the verdict, and what would settle an undecided one.
    pub reason: SampleReason,
}

/// How far the arm is from the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Whether the figures are ratios, arm over baseline; else they are differences in the metric's unit.
    pub is_ratio: bool,
    /// The typical ratio or difference.
    pub typical: f64,
    /// The interval; `None` with too few figures.
    pub interval: Option<(f64, f64)>,
    /// Confidence level of the interval, a fraction.
    pub confidence: Option<f64>,
}

/// Judges figures in blocks; `is_random` tells whether `arm_first` was drawn at random.
pub fn paired(pairs: &[Pair], is_random: bool, direction: Direction, terms: Terms) -> SampleResult {
    let least = fewest_blocks(terms.error_rate);
    let sample = Sample {
        count: pairs.len(),
        least,
        unit: SampleUnit::Blocks,
        confounder: Confounder::Order,
    };
    if pairs.iter().all(|pair| repeats(pair.baseline, pair.arm)) {
        return repeated(pairs.iter().map(|pair| pair.arm), sample, terms.error_rate);
    }
    if is_random && least <= pairs.len() {
        return decide_by_rule(pairs, direction, terms);
    }
    let Some(contrasts) = Contrasts::of(pairs, direction, terms.margin) else {
        return repeated(pairs.iter().map(|pair| pair.arm), sample, terms.error_rate);
    };
    let key = format!("once\n{}", terms.seed);
    let flips = SignFlips::draw(&key, pairs.len(), terms.error_rate);
    let typical = hodges_lehmann(&contrasts.values);
    let spread = less(&contrasts.values, typical);
    let step = scale(&spread) / (pairs.len() as f64).sqrt();
    let interval = interval(typical, step, SEARCH, |shift| {
        is_refuted(&contrasts.values, shift, &flips, terms.error_rate)
    });
    sample.finding(&contrasts, typical, interval, terms)
}

/// Judges blocks in random order by the rule for runs, with its first analysis at the last block.
fn decide_by_rule(pairs: &[Pair], direction: Direction, terms: Terms) -> SampleResult {
    let blocks = pairs.len() as u32;
    let design = Design {
        margin: terms.margin,
        error_rate: terms.error_rate,
        min_blocks: blocks,
        max_blocks: blocks,
        seed: terms.seed,
        ..Design::DEFAULTS
    };
    let finding = rule::decide(&[Series { pairs, direction }], &design, "once").remove(0);
    let change = match (finding.ratio, finding.difference) {
        (Some(typical), _) => Some(Change {
            is_ratio: true,
            typical,
            interval: finding.shown_interval(),
            confidence: finding.confidence,
        }),
        (None, Some(shift)) => Some(Change {
            is_ratio: false,
            typical: shift.typical,
            interval: shift.low.zip(shift.high),
            confidence: finding.confidence,
        }),
        (None, None) => None,
    };
    // The rule's remedies refer to a plan, which these figures lack.
    let reason = match (finding.verdict, finding.noise) {
        (Verdict::Undecided, Some(noise)) => {
            let settle = interim::needed(noise, terms.margin.ln_1p(), terms.error_rate);
            inconclusive(terms, settle.max(blocks + 1), SampleUnit::Blocks)
        }
        _ => SampleReason::Rule {
            reason: finding.reason,
        },
    };
    SampleResult {
        verdict: finding.verdict,
        change,
        reason,
    }
}

/// Judges unmatched runs, one figure per run.
pub fn unpaired(baseline: &[f64], arm: &[f64], direction: Direction, terms: Terms) -> SampleResult {
    let sample = Sample {
        count: baseline.len().min(arm.len()),
        least: fewest_runs(terms.error_rate),
        unit: SampleUnit::RunsOfEachArm,
        confounder: Confounder::Drift,
    };
    let all = || baseline.iter().chain(arm).copied();
    if all().all(|value| repeats(value, baseline[0])) {
        return repeated(all(), sample, terms.error_rate);
    }
    // `Contrasts` compares the two figures of a pair; here every run is compared with every other.
    let pair = |baseline: f64, arm: f64| Pair {
        block: 1,
        baseline,
        arm,
        arm_first: false,
    };
    let crossed = baseline
        .iter()
        .flat_map(|baseline| arm.iter().map(move |arm| pair(*baseline, *arm)));
    let crossed: Vec<Pair> = crossed.collect();
    let Some(contrasts) = Contrasts::of(&crossed, direction, terms.margin) else {
        return repeated(all(), sample, terms.error_rate);
    };
    let mut shifts = contrasts.values.clone();
    shifts.sort_by(f64::total_cmp);
    let outside = outside(baseline.len(), arm.len(), terms.error_rate);
    let interval = (outside > 0).then(|| (shifts[outside - 1], shifts[shifts.len() - outside]));
    let typical = median(&shifts);
    sample.finding(&contrasts, typical, interval, terms)
}

/// The fewest runs of each of two arms that can show a difference.
pub fn fewest_runs(error_rate: f64) -> usize {
    let mut runs = 1;
    while 2.0 / ways(runs, runs) > error_rate {
        runs += 1;
    }
    runs
}

/// Whether two figures are identical.
fn repeats(first: f64, second: f64) -> bool {
    first.total_cmp(&second).is_eq()
}

/// The number of figures, and how they were taken.
#[derive(Debug, Clone, Copy)]
struct Sample {
    count: usize,
    /// The fewest that can show a difference.
    least: usize,
    unit: SampleUnit,
    confounder: Confounder,
}

impl Sample {
    /// Returns the verdict with its reason, unless there are too few figures.
    fn unless_too_few(self, verdict: Verdict, reason: SampleReason) -> (Verdict, SampleReason) {
        if self.least <= self.count {
            return (verdict, reason);
        }
        let too_few = SampleReason::TooFew {
            count: self.count as u32,
            least: self.least as u32,
            unit: self.unit,
        };
        (Verdict::Undecided, too_few)
    }

    /// The finding from contrasts (above zero if the arm is better), their estimate and interval.
    fn finding(
        self,
        contrasts: &Contrasts,
        typical: f64,
        interval: Option<(f64, f64)>,
        terms: Terms,
    ) -> SampleResult {
        let (verdict, reason) = self.verdict(contrasts, typical, interval, terms);
        let (verdict, reason) = self.unless_too_few(verdict, reason);
        let change = Change {
            is_ratio: contrasts.kind == Kind::Ratio,
            typical: contrasts.shown(typical),
            interval: interval.map(|(low, high)| contrasts.shown_interval(low, high)),
            confidence: interval.map(|_| 1.0 - terms.error_rate),
        };
        SampleResult {
            verdict,
            change: Some(change),
            reason,
        }
    }

    /// The verdict if something besides the arms may have caused a difference as large as the margin.
    fn verdict(
        self,
        contrasts: &Contrasts,
        typical: f64,
        interval: Option<(f64, f64)>,
        terms: Terms,
    ) -> (Verdict, SampleReason) {
        let (margin, confounder) = (terms.margin, self.confounder);
        let beyond = SampleReason::BeyondMargin { margin, confounder };
        match interval {
            Some((low, _)) if low > contrasts.margin => (Verdict::Better, beyond),
            Some((_, high)) if high < -contrasts.margin => (Verdict::Worse, beyond),
            Some((low, high)) if low > 0.0 || high < 0.0 => (
                Verdict::Undecided,
                SampleReason::NotSurelyBeyondMargin { margin, confounder },
            ),
            Some((low, high)) if -contrasts.margin < low && high < contrasts.margin => (
                Verdict::Undecided,
                SampleReason::NoneBeyondMargin { margin, confounder },
            ),
            Some(_) | None => {
                // Runs per arm count as blocks: their difference has the variance of a block's contrast.
                let spread = less(&contrasts.values, typical);
                let needed = interim::needed(scale(&spread), contrasts.margin, terms.error_rate);
                let needed = needed.max(self.count as u32 + 1);
                (Verdict::Undecided, inconclusive(terms, needed, self.unit))
            }
        }
    }
}

/// The finding for figures that repeat exactly in both arms.
fn repeated(
    mut figures: impl Iterator<Item = f64>,
    sample: Sample,
    error_rate: f64,
) -> SampleResult {
    let first = figures.next();
    let reason = if figures.all(|figure| Some(figure) == first) {
        SampleReason::RepeatedFigure
    } else {
        SampleReason::RepeatedInBlocks
    };
    let (verdict, reason) = sample.unless_too_few(Verdict::Equivalent, reason);
    let change = Change {
        is_ratio: true,
        typical: 1.0,
        interval: (sample.least <= sample.count).then_some((1.0, 1.0)),
        confidence: (sample.least <= sample.count).then_some(1.0 - error_rate),
    };
    SampleResult {
        verdict,
        change: Some(change),
        reason,
    }
}

/// The reason of an undecided comparison, with the number of runs or blocks that would settle it.
fn inconclusive(terms: Terms, needed: u32, unit: SampleUnit) -> SampleReason {
    SampleReason::Inconclusive {
        margin: terms.margin,
        needed: Some(needed).filter(|needed| *needed <= SampleReason::MOST_NEEDED),
        unit,
    }
}

/// Whether "better by `shift`" is rejected: at most a share `rate` of all sign flips is as extreme.
/// If slots are unknown, the order effect stays in.
pub fn is_refuted(values: &[f64], shift: f64, flips: &SignFlips, error_rate: f64) -> bool {
    let scores = tukey(&less(values, shift));
    let sum: f64 = scores.iter().sum();
    let least = sum.abs() * (1.0 - 1e-9) - 1e-9;
    let as_extreme = flips
        .sums(&scores)
        .iter()
        .filter(|flipped| flipped.abs() >= least)
        .count();
    // The observed signs count as one flip if they are not among the rows.
    let observed = flips.uncounted(values.len());
    let allowed = (error_rate * flips.rows() as f64 + 1e-9).floor() as usize;
    sum != 0.0 && observed + as_extreme <= allowed
}

/// How many of the sorted differences of all runs lie outside the interval on each side: the largest k with
/// `P(U < k) <= error_rate / 2`.
fn outside(base: usize, arm: usize, error_rate: f64) -> usize {
    let (n, m) = (base as f64, arm as f64);
    if ways(base, arm) > MAX_EXACT {
        let quantile = Normal::standard().inverse_cdf(1.0 - error_rate / 2.0);
        let half = n * m / 2.0 - quantile * (n * m * (n + m + 1.0) / 12.0).sqrt();
        return half.floor().max(0.0) as usize;
    }
    let all = ways(base, arm);
    let mut below = 0.0;
    let mut outside = 0;
    for count in rank_sums(base, arm) {
        below += count;
        if below / all > error_rate / 2.0 {
            break;
        }
        outside += 1;
    }
    outside
}

/// Number of ways in which the statistic U takes each value, without ties: the Gaussian binomial coefficients,
/// with generating function prod (1 - q^(arm + i)) / (1 - q^i) over i up to `base`.
fn rank_sums(base: usize, arm: usize) -> Vec<f64> {
    let largest = base * arm;
    let mut counts = vec![0.0; largest + 1];
    counts[0] = 1.0;
    for i in 1..=base {
        for u in ((arm + i)..=largest).rev() {
            counts[u] -= counts[u - arm - i];
        }
        for u in i..=largest {
            counts[u] += counts[u - i];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::keyed;

    const TERMS: Terms = Terms {
        margin: 0.02,
        error_rate: 0.01,
        seed: 1,
    };

    #[test]
    fn rank_sums_are_counted_exactly() {
        // All 6 ways of mixing two and two runs.
        assert_eq!(rank_sums(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!((ways(5, 5), ways(10, 10)), (252.0, 184_756.0));
    }

    #[test]
    fn critical_values_are_those_of_the_tables() {
        // Mann-Whitney tables: U is critical up to 23 at 5 % and up to 16 at 1 %, for ten and ten, two sides.
        assert_eq!([outside(10, 10, 0.05), outside(10, 10, 0.01)], [24, 17]);
        assert_eq!([outside(4, 4, 0.01), outside(5, 5, 0.01)], [0, 1]);
        // Beyond exact counts the normal approximation goes on where the tables end.
        let (exact, normal) = (outside(26, 26, 0.01), outside(28, 28, 0.01));
        assert!(exact < normal && normal < exact + 50, "{exact} {normal}");
    }

    #[test]
    fn the_fewest_runs_follow_from_the_error_rate() {
        assert_eq!([fewest_runs(0.01), fewest_runs(0.05)], [5, 4]);
    }

    /// Blocks whose arm takes about `ratio` of the baseline's time; figures vary uniformly by a share of `noise`.
    fn blocks(count: u32, ratio: f64, noise: f64) -> Vec<Pair> {
        let mut prng = keyed("blocks");
        let mut figure = || 1.0 + noise * (prng.bits() as f64 / u64::MAX as f64);
        let pair = |block: u32| Pair {
            block,
            baseline: figure(),
            arm: ratio * figure(),
            arm_first: block.is_multiple_of(3),
        };
        (1..=count).map(pair).collect()
    }

    #[test]
    fn equivalent_has_the_interval_of_that_claim() {
        let terms = Terms {
            margin: 0.01,
            error_rate: 0.05,
            seed: 1,
        };
        let all = blocks(400, 1.0, 0.02);
        let judged = all
            .chunks(10)
            .map(|pairs| paired(pairs, true, Direction::Lower, terms));
        let equivalent: Vec<SampleResult> = judged
            .filter(|finding| finding.verdict == Verdict::Equivalent)
            .collect();
        assert!(equivalent.len() > 5, "{}", equivalent.len());
        for finding in equivalent {
            let (low, high) = finding.change.unwrap().interval.unwrap();
            assert!(
                1.0 / 1.01 - 1e-9 <= low && high <= 1.01 + 1e-9,
                "{low} {high}"
            );
        }
    }

    #[test]
    fn a_share_of_an_error_rate_among_many_comparisons_can_be_met() {
        let pairs = blocks(28, 2.0, 0.01);
        for rate in [0.01 / 300.0, 0.01 / 9900.0] {
            let terms = Terms {
                error_rate: rate,
                ..TERMS
            };
            for is_random in [true, false] {
                let finding = paired(&pairs, is_random, Direction::Lower, terms);
                let (low, _) = finding.change.unwrap().interval.unwrap();
                assert!(low > 1.9, "{rate} {is_random}: {low}");
                assert_eq!(finding.verdict, Verdict::Worse, "{rate} {is_random}");
            }
        }
    }

    #[test]
    fn what_would_settle_is_more_than_there_are() {
        let finding = paired(&blocks(8, 1.005, 0.03), true, Direction::Lower, TERMS);
        let SampleReason::Inconclusive { needed, .. } = finding.reason else {
            panic!("{finding:?}");
        };
        assert!(needed.unwrap() > 8, "{needed:?}");
    }

    /// Number of intervals, of 1000 comparisons of one system with itself, that exclude "no difference".
    fn misses(judge: impl Fn(&[f64], &[f64]) -> SampleResult) -> usize {
        let mut prng = keyed("misses");
        let mut figure = || 100.0 * (0.03 * (prng.bits() as f64 / u64::MAX as f64)).exp();
        let misses = |_: &usize| {
            let base: Vec<f64> = (0..10).map(|_| figure()).collect();
            let arm: Vec<f64> = (0..10).map(|_| figure()).collect();
            let change = judge(&base, &arm).change.unwrap();
            let (low, high) = change.interval.unwrap();
            !(low <= 1.0 && 1.0 <= high)
        };
        (0..1000).filter(misses).count()
    }

    #[test]
    fn intervals_exclude_the_truth_as_rarely_as_promised() {
        // 10 of 1000 are expected at most, with a standard deviation of 3.
        let run_misses = misses(|base, arm| unpaired(base, arm, Direction::Higher, TERMS));
        let block_misses = misses(|base, arm| {
            let pair = |(baseline, arm): (&f64, &f64)| Pair {
                block: 1,
                baseline: *baseline,
                arm: *arm,
                arm_first: false,
            };
            let pairs: Vec<Pair> = base.iter().zip(arm).map(pair).collect();
            paired(&pairs, false, Direction::Higher, TERMS)
        });
        assert!(
            (1..=22).contains(&run_misses) && (1..=22).contains(&block_misses),
            "{run_misses} {block_misses}"
        );
    }

    #[test]
    fn unpaired_runs_are_never_called_equivalent_but_repeated_figures_are() {
        let close: Vec<f64> = (0..20).map(|n| 100.0 + f64::from(n % 3) * 0.01).collect();
        let finding = unpaired(&close, &close, Direction::Lower, TERMS);
        assert_eq!(finding.verdict, Verdict::Undecided);
        assert!(
            matches!(finding.reason, SampleReason::NoneBeyondMargin { .. }),
            "{:?}",
            finding.reason
        );
        let finding = unpaired(&[896.0; 8], &[896.0; 8], Direction::Lower, TERMS);
        assert_eq!(finding.verdict, Verdict::Equivalent);
        let finding = unpaired(&[896.0; 2], &[896.0; 8], Direction::Lower, TERMS);
        assert_eq!(finding.verdict, Verdict::Undecided);
    }

    #[test]
    fn zeros_are_reported_as_differences() {
        let (none, some) = ([0.0; 8], [3.0, 4.0, 5.0, 4.0, 3.0, 4.0, 6.0, 4.0]);
        let finding = unpaired(&none, &some, Direction::Lower, TERMS);
        let change = finding.change.unwrap();
        assert_eq!((finding.verdict, change.is_ratio), (Verdict::Worse, false));
        assert!((change.typical - 4.0).abs() < 1e-9, "{change:?}");
    }
}
