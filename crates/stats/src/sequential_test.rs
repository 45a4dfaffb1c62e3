//! A sequential randomization test of a family of metrics: the analysis at which each is decided, and the shifts never rejected.
//!
//! Three null hypotheses are tested side by side: "no difference", "better by the margin", "worse by the margin".
//! ```text
//! better, worse   "no difference" is rejected, and the estimate lies on the same side
//! equivalent      "better by the margin" is rejected from below, "worse by the margin" from above, and the estimate lies within it
//! ```
//! The first verdict stands. Metrics share their sign flips and the distribution of the largest statistic
//! (maxT: Westfall and Young 1993), which controls the family-wise error rate.
//!
//! Analyses at which no further path may cross are skipped, because they change nothing.

use plan::Design;
use record::verdict::{Pair, Verdict};

use crate::average::less;
use crate::boundary::Boundary;
use crate::contrast::Contrasts;
use crate::interim;
use crate::interim::InterimAnalysis;
use crate::inversion;
use crate::inversion::Search;
use crate::randomization::SignFlips;
use crate::score::{centred, scale, tukey};

/// How the interval is searched for; one test covers all analyses.
const SEARCH: Search = Search {
    tries: 12,
    halvings: 9,
};

/// What all metrics of a workload and arm share.
#[derive(Clone)]
pub struct TestSetup {
    /// The null distribution.
    pub flips: SignFlips,
    /// 1 if the arm ran second in a block, else -1.
    pub second: Vec<f64>,
    /// Looks in the order of their blocks.
    pub analyses: Vec<InterimAnalysis>,
    /// Probability of a wrong "better" or "worse" in the family.
    pub error_rate: f64,
    /// Probability of a wrong "equivalent" on one side.
    equivalence_error_rate: f64,
    /// Share of either rate that all analyses together spend: 1, or more if a run was given more blocks than planned.
    to_be_spent: f64,
}

impl TestSetup {
    /// Analyses follow the blocks of the primary metric, on which a run stops. If it `has_secondary` metrics beside
    /// it, the primary one has half of the error rate and they have the other half.
    pub fn new(primary: &[Pair], design: &Design, key: &str, has_secondary: bool) -> Self {
        let flips = Self::flips(primary.len(), design, key);
        Self::with_flips(flips, primary, design, has_secondary)
    }

    /// The sign flips of `blocks` blocks.
    pub fn flips(blocks: usize, design: &Design, key: &str) -> SignFlips {
        SignFlips::draw_extended(
            &format!("signs\n{}\n{key}", design.seed),
            blocks,
            design.max_blocks as usize,
            design.most_blocks() as usize,
            // With secondary metrics, both halves of the family have half of the rate.
            design.error_rate / 2.0,
        )
    }

    /// Like `new`, with flips that were drawn before.
    pub fn with_flips(
        flips: SignFlips,
        primary: &[Pair],
        design: &Design,
        has_secondary: bool,
    ) -> Self {
        let second = second(primary);
        let share = if has_secondary { 0.5 } else { 1.0 };
        Self {
            flips,
            analyses: interim::schedule(&second, design),
            second,
            error_rate: share * design.error_rate,
            equivalence_error_rate: interim::equivalence_error_rate(design),
            to_be_spent: interim::spent(design.most_blocks(), design),
        }
    }

    /// Number of sign-flip paths compared at each analysis.
    pub fn rows(&self) -> usize {
        self.flips.rows()
    }

    /// The setup up to the look after `blocks` blocks.
    #[must_use]
    pub fn until(&self, blocks: usize) -> Self {
        let mut so_far = self.clone();
        so_far.analyses.retain(|analysis| analysis.blocks <= blocks);
        so_far.second.truncate(blocks);
        so_far
    }

    /// Confidence level of a verdict's interval, valid at every analysis.
    pub fn confidence(&self, verdict: Verdict) -> f64 {
        let error_rate = match verdict {
            Verdict::Equivalent => 2.0 * self.equivalence_error_rate,
            Verdict::Better | Verdict::Worse | Verdict::Undecided => self.error_rate,
        };
        1.0 - error_rate * self.to_be_spent
    }
}

/// For each block 1 if the arm ran second, else -1.
pub fn second(pairs: &[Pair]) -> Vec<f64> {
    let place = |pair: &Pair| if pair.arm_first { -1.0 } else { 1.0 };
    pairs.iter().map(place).collect()
}

/// The verdict on a metric, and the block after which it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Never undecided.
    pub verdict: Verdict,
    /// Number of blocks at that analysis.
    pub at_block: usize,
}

/// One null hypothesis of a family: that the arm is better by `shift` margins.
struct Hypothesis {
    shift: f64,
    boundary: Boundary,
    /// Those of one metric; reused, as `largest` is.
    statistics: Statistics,
    /// The largest of any metric in each row of sign flips.
    largest: Vec<f64>,
    /// For each metric the side on which the hypothesis was rejected, if it was.
    rejected: Vec<Option<Side>>,
}

/// Where the observed statistic lies when a hypothesis is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

/// Tests a family from the first analysis to the last; returns the decision on each metric, `None` while undecided.
pub fn sequential_test(family: &[&Contrasts], setup: &TestSetup) -> Vec<Option<Decision>> {
    let hypothesis = |shift| Hypothesis {
        shift,
        boundary: Boundary::new(&setup.flips),
        statistics: Statistics::default(),
        largest: Vec::new(),
        rejected: vec![None; family.len()],
    };
    let mut no_difference = hypothesis(0.0);
    let mut worse_by_margin = hypothesis(-1.0);
    let mut better_by_margin = hypothesis(1.0);
    let mut decisions = vec![None; family.len()];
    for analysis in &setup.analyses {
        if decisions.iter().all(Option::is_some) {
            break;
        }
        let difference = setup.error_rate * analysis.spent;
        let equivalence = 2.0 * setup.equivalence_error_rate * analysis.spent;
        no_difference.test(family, setup, analysis.blocks, difference);
        worse_by_margin.test(family, setup, analysis.blocks, equivalence);
        better_by_margin.test(family, setup, analysis.blocks, equivalence);
        for (metric, decision) in decisions.iter_mut().enumerate() {
            if decision.is_some() {
                continue;
            }
            let verdict = match (
                no_difference.rejected[metric],
                worse_by_margin.rejected[metric],
                better_by_margin.rejected[metric],
            ) {
                (Some(Side::Above), _, _) => Verdict::Better,
                (Some(Side::Below), _, _) => Verdict::Worse,
                (None, Some(Side::Above), Some(Side::Below)) => Verdict::Equivalent,
                (None, _, _) => continue,
            };
            if family[metric].agree_with(verdict, &setup.second[..analysis.blocks]) {
                *decision = Some(Decision {
                    verdict,
                    at_block: analysis.blocks,
                });
            }
        }
    }
    decisions
}

impl Hypothesis {
    /// Tests all metrics at the look after `blocks` blocks, by which the error `spent` may be spent. Each row of sign flips
    /// contributes the largest statistic of any metric: maxT.
    fn test(&mut self, family: &[&Contrasts], setup: &TestSetup, blocks: usize, spent: f64) {
        if self.boundary.quota(spent) == 0 {
            return;
        }
        let mut observed = Vec::new();
        self.largest.clear();
        self.largest.resize(setup.flips.rows(), 0.0);
        for contrasts in family {
            let shift = self.shift * contrasts.margin;
            self.statistics
                .compute(&contrasts.values, shift, setup, blocks);
            for (largest, statistic) in self.largest.iter_mut().zip(&self.statistics.of_flips) {
                *largest = largest.max(*statistic);
            }
            observed.push(self.statistics.observed);
        }
        let sizes: Vec<f64> = observed.iter().map(|statistic| statistic.abs()).collect();
        let uncounted = setup.flips.uncounted(blocks);
        let crossed = self.boundary.test(uncounted, &self.largest, &sizes, spent);
        for ((rejected, crosses), statistic) in self.rejected.iter_mut().zip(crossed).zip(observed)
        {
            if crosses && rejected.is_none() && statistic != 0.0 {
                *rejected = Some(if statistic > 0.0 {
                    Side::Above
                } else {
                    Side::Below
                });
            }
        }
    }
}

/// The test statistic of one metric: a sum of scores, in standard deviations over all sign flips.
#[derive(Default)]
pub struct Statistics {
    /// Its value in the order that was run.
    pub observed: f64,
    /// Its absolute value in each row of sign flips.
    pub of_flips: Vec<f64>,
}

impl Statistics {
    /// Statistics of the first `blocks` contrasts, under the hypothesis that the arm is better by `shift`.
    pub fn of(values: &[f64], shift: f64, setup: &TestSetup, blocks: usize) -> Self {
        let mut statistics = Self::default();
        statistics.compute(values, shift, setup, blocks);
        statistics
    }

    /// Like `of`, in the memory that is here.
    fn compute(&mut self, values: &[f64], shift: f64, setup: &TestSetup, blocks: usize) {
        let shifted = less(&values[..blocks], shift);
        let scores = tukey(&centred(&shifted, &setup.second[..blocks]).0);
        let deviation = scores.iter().map(|score| score * score).sum::<f64>().sqrt();
        setup.flips.sums_into(&scores, &mut self.of_flips);
        if deviation == 0.0 {
            self.observed = 0.0;
            return;
        }
        for sum in &mut self.of_flips {
            *sum = sum.abs() / deviation;
        }
        self.observed = scores.iter().sum::<f64>() / deviation;
    }
}

/// The confidence interval of one metric: the shifts that no analysis rejects, so that it is valid at every analysis.
/// `None` while no shift, however large, could have been rejected.
pub fn interval(contrasts: &Contrasts, centre: f64, setup: &TestSetup) -> Option<(f64, f64)> {
    interval_at(setup.error_rate, contrasts, centre, setup)
}

/// The interval behind "equivalent". Both margins were rejected, so it lies within them.
pub fn equivalence_interval(contrasts: &Contrasts, centre: f64, setup: &TestSetup) -> (f64, f64) {
    let margin = contrasts.margin;
    let interval = interval_at(2.0 * setup.equivalence_error_rate, contrasts, centre, setup);
    let (low, high) = interval.unwrap_or((-margin, margin));
    (low.clamp(-margin, margin), high.clamp(-margin, margin))
}

fn interval_at(
    error_rate: f64,
    contrasts: &Contrasts,
    centre: f64,
    setup: &TestSetup,
) -> Option<(f64, f64)> {
    let blocks = setup.analyses.last()?.blocks;
    let spread = less(&contrasts.values[..blocks], centre);
    // Figures that repeat exactly have a scale of zero.
    let step = (2.0 * scale(&spread) / (blocks as f64).sqrt()).max(contrasts.margin / 64.0);
    let mut boundary = Boundary::new(&setup.flips);
    let mut statistics = Statistics::default();
    inversion::interval(centre, step, SEARCH, |shift| {
        boundary.reset();
        setup.analyses.iter().any(|analysis| {
            let spent = error_rate * analysis.spent;
            if boundary.quota(spent) == 0 {
                return false;
            }
            statistics.compute(&contrasts.values, shift, setup, analysis.blocks);
            let observed = statistics.observed.abs();
            let uncounted = setup.flips.uncounted(analysis.blocks);
            observed != 0.0 && boundary.test(uncounted, &statistics.of_flips, &[observed], spent)[0]
        })
    })
}

#[cfg(test)]
mod tests {
    use record::metric::Direction;

    use super::*;
    use crate::design::keyed;

    fn design(max_blocks: u32) -> Design {
        Design {
            margin: 0.02,
            error_rate: 0.01,
            min_blocks: 8,
            max_blocks,
            ..Design::DEFAULTS
        }
    }

    /// Blocks of an arm that is faster by `effect`, with uniform noise of up to `noise`.
    fn blocks(effect: f64, noise: f64, count: u32) -> (Contrasts, Vec<f64>) {
        let mut prng = keyed(&format!("{effect} {noise}"));
        let mut uniform = || prng.bits() as f64 / u64::MAX as f64 * 2.0 - 1.0;
        let pair = |block| Pair {
            block,
            baseline: 100.0,
            arm: 100.0 * (effect + noise * uniform()).exp(),
            arm_first: false,
        };
        let pairs: Vec<Pair> = (1..=count).map(pair).collect();
        let second = (0..count).map(|_| if prng.bits() & 1 == 0 { 1.0 } else { -1.0 });
        let second = second.collect();
        (
            Contrasts::of(&pairs, Direction::Higher, 0.02).unwrap(),
            second,
        )
    }

    /// A test of this many blocks with an error rate of 1 %.
    fn setup(second: Vec<f64>, analyses: Vec<InterimAnalysis>) -> TestSetup {
        TestSetup {
            flips: SignFlips::draw("test", second.len(), 0.01),
            second,
            analyses,
            error_rate: 0.01,
            equivalence_error_rate: 0.01,
            to_be_spent: 1.0,
        }
    }

    fn check(effect: f64, noise: f64, count: u32) -> (Option<Decision>, Option<(f64, f64)>) {
        let (contrasts, second) = blocks(effect, noise, count);
        let analyses = interim::schedule(&second, &design(count));
        let setup = setup(second, analyses);
        let decision = sequential_test(&[&contrasts], &setup)[0];
        (decision, interval(&contrasts, effect, &setup))
    }

    #[test]
    fn a_gain_a_loss_and_no_difference_are_distinguished() {
        assert_eq!(check(0.05, 0.03, 40).0.unwrap().verdict, Verdict::Better);
        assert_eq!(check(-0.05, 0.03, 40).0.unwrap().verdict, Verdict::Worse);
        assert_eq!(check(0.0, 0.03, 60).0.unwrap().verdict, Verdict::Equivalent);
    }

    #[test]
    fn an_interval_holds_the_truth_and_excludes_what_was_rejected() {
        let (decision, interval) = check(0.05, 0.03, 40);
        let (low, high) = interval.unwrap();
        assert!(
            0.0 < low && low < 0.05 && 0.05 < high && high < 0.08,
            "{low} {high}"
        );
        assert!(decision.unwrap().at_block < 40);
    }

    #[test]
    fn eight_blocks_cannot_exclude_any_shift_at_one_percent() {
        let (decision, interval) = check(0.2, 0.01, 8);
        assert_eq!((decision.is_some(), interval.is_some()), (true, true));
        let (contrasts, second) = blocks(0.2, 0.01, 6);
        let analyses = vec![InterimAnalysis {
            blocks: 6,
            spent: 1.0,
        }];
        let setup = setup(second, analyses);
        assert_eq!(super::interval(&contrasts, 0.2, &setup), None);
    }
}
