//! The decision rule R*: the verdict on an arm, from its blocks with the baseline.
//!
//! ```text
//! pairs -> contrasts -> interim analyses (how much error to spend) -> sequential test -> decision
//!                                                       -> estimate, interval, noise, order effect
//! ```
//! - The primary metric of a workload has half of the plan's error rate; all other metrics share the other half. A single
//!   metric has all of it. "Equivalent" is a separate claim with the plan's error rate.
//! - The interval is valid at every analysis. That of the primary metric excludes "no difference" exactly when the metric is
//!   better or worse; those of other metrics hold individually. An equivalent metric has the interval of the equivalence
//!   claim instead, which lies within the margin and needs fewer blocks.
//! - The error rate applies per workload and arm. A plan with many of them has as many chances of a wrong verdict.
//!
//! The rule assumes that the order in a block was drawn at random. It ignores a slow trial among ten;
//! `outliers` finds those.

use plan::{Design, MOST_BLOCKS};
use record::metric::Direction;
use record::verdict::reason::{Outlook, Place, Reason};
use record::verdict::{Estimate, Pair, Shift, Verdict};

use crate::average::less;
use crate::contrast::{Contrasts, Kind};
use crate::interim;
use crate::randomization::SignFlips;
use crate::score::{planning_scale, scale, typical};
use crate::sequential_test::{
    Decision, TestSetup, equivalence_interval, interval, second, sequential_test,
};

/// The rule's name in a judgement.
pub const NAME: &str = "r-star";

/// Above this many blocks, interim analyses skip the interval, which takes seconds; the decision is the same.
pub const MOST_WITH_INTERVAL: usize = 200;

/// One metric of one arm, block by block.
#[derive(Debug, Clone, Copy)]
pub struct Series<'s> {
    /// Baseline and arm in each block.
    pub pairs: &'s [Pair],
    /// Which direction is better.
    pub direction: Direction,
}

impl<'s> Series<'s> {
    /// The first blocks of the series.
    #[must_use]
    pub fn first(&self, blocks: usize) -> Series<'s> {
        Series {
            pairs: &self.pairs[..blocks.min(self.pairs.len())],
            direction: self.direction,
        }
    }
}

/// The result of the rule for one metric of one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleResult {
    /// The verdict.
    pub verdict: Verdict,
    /// Blocks after which it was reached.
    pub decided_at: Option<u32>,
    /// Arm over baseline, typical over blocks; `None` if some figures are zero.
    pub ratio: Option<f64>,
    /// The ratio's interval at the error rate of "better" and "worse"; `None` while no ratio can be excluded.
    pub interval: Option<(f64, f64)>,
    /// The ratio's interval behind "equivalent": at that claim's error rate, and within the margin.
    pub equal_interval: Option<(f64, f64)>,
    /// The difference in the metric's unit with the interval of its verdict, if some figures are zero.
    pub difference: Option<Shift>,
    /// Scale of a block's contrast around the estimate (paired log-ratios, if there are ratios).
    pub noise: Option<f64>,
    /// Effect of running second in a block, as a share.
    pub order_effect: Option<f64>,
    /// Share of the plan's error rate spent so far; above 1 if the run was given more blocks than the plan's.
    pub spent: f64,
    /// Further blocks that would settle an undecided metric; `None` if it is decided, or no number would.
    pub more: Option<u32>,
    /// Confidence level of the verdict's interval, a fraction, valid at every analysis; `None` without an interval.
    pub confidence: Option<f64>,
    /// Reason of the verdict.
    pub reason: Reason,
}

impl RuleResult {
    fn undecided(reason: Reason) -> Self {
        Self {
            verdict: Verdict::Undecided,
            decided_at: None,
            ratio: None,
            interval: None,
            equal_interval: None,
            difference: None,
            noise: None,
            order_effect: None,
            spent: 0.0,
            more: None,
            confidence: None,
            reason,
        }
    }

    /// The interval of the verdict.
    pub fn shown_interval(&self) -> Option<(f64, f64)> {
        match self.verdict {
            Verdict::Equivalent => self.equal_interval,
            Verdict::Better | Verdict::Worse | Verdict::Undecided => self.interval,
        }
    }
}

/// Decides on the metrics of one workload and arm; the first is the primary one. `key` names them, so that each
/// comparison has different sign flips.
pub fn decide(series: &[Series<'_>], design: &Design, key: &str) -> Vec<RuleResult> {
    let Some((primary, secondary)) = series.split_first() else {
        return Vec::new();
    };
    let setup = TestSetup::new(primary.pairs, design, key, !secondary.is_empty());
    let mut findings = find_family(&[*primary], design, &setup, Ends::Searched);
    findings.extend(find_family(secondary, design, &setup, Ends::Searched));
    findings
}

/// Like `decide` for a primary metric during its run; above `MOST_WITH_INTERVAL` blocks without the interval.
pub fn decide_interim(
    primary: Series<'_>,
    design: &Design,
    key: &str,
    has_secondary: bool,
) -> RuleResult {
    let setup = TestSetup::new(primary.pairs, design, key, has_secondary);
    let ends = if primary.pairs.len() <= MOST_WITH_INTERVAL {
        Ends::Searched
    } else {
        Ends::LeftOut
    };
    find_family(&[primary], design, &setup, ends).remove(0)
}

/// The verdict on a primary metric beside others, and the number of blocks after which its run may stop. It skips the
/// estimate and the interval, which take most of the time.
pub fn decide_primary(series: Series<'_>, design: &Design, key: &str) -> Option<(Verdict, u32)> {
    let contrasts = Contrasts::of(series.pairs, series.direction, design.margin)?;
    let setup = TestSetup::new(series.pairs, design, key, true);
    let decision = sequential_test(&[&contrasts], &setup).remove(0);
    let (verdict, blocks) = decision.map_or((Verdict::Undecided, series.pairs.len()), |decision| {
        (decision.verdict, decision.at_block)
    });
    Some((verdict, blocks as u32))
}

/// The verdict on a primary metric as a function of the margin, with the analyses and sign flips of its run.
pub fn by_margin(
    series: Series<'_>,
    design: &Design,
    key: &str,
    has_secondary: bool,
) -> impl Fn(f64) -> Option<Verdict> {
    let setup = TestSetup::new(series.pairs, design, key, has_secondary);
    move |margin| verdict(series, margin, &setup)
}

/// The verdict at the design's margin, with sign flips that were drawn before.
pub fn with_flips(
    series: Series<'_>,
    design: &Design,
    flips: &SignFlips,
    has_secondary: bool,
) -> Option<Verdict> {
    let setup = TestSetup::with_flips(flips.clone(), series.pairs, design, has_secondary);
    verdict(series, design.margin, &setup)
}

fn verdict(series: Series<'_>, margin: f64, setup: &TestSetup) -> Option<Verdict> {
    let contrasts = Contrasts::of(series.pairs, series.direction, margin)?;
    let decision = sequential_test(&[&contrasts], setup).remove(0);
    Some(decision.map_or(Verdict::Undecided, |decision| decision.verdict))
}

/// The ratio of arm to baseline, typical over blocks; `None` if some figures are zero.
pub fn typical_ratio(series: Series<'_>) -> Option<f64> {
    let contrasts = Contrasts::of(series.pairs, series.direction, 0.0)?;
    let typical = typical(&contrasts.values, &second(series.pairs));
    (contrasts.kind == Kind::Ratio).then(|| contrasts.shown(typical.shift))
}

/// The decisions on the metrics of a run that stops on its primary one, which is the first. It skips estimates and
/// intervals, which take most of the time.
pub fn decisions_at_stop(
    series: &[Series<'_>],
    design: &Design,
    key: &str,
) -> Vec<Option<Decision>> {
    let Some((primary, secondary)) = series.split_first() else {
        return Vec::new();
    };
    let has_secondary = !secondary.is_empty();
    let setup = TestSetup::new(primary.pairs, design, key, has_secondary);
    let (_, primary_decision) = test_family(&[*primary], design, &setup).remove(0);
    let stop = primary_decision.map_or(primary.pairs.len(), |decision| decision.at_block);
    let setup = TestSetup::new(primary.first(stop).pairs, design, key, has_secondary);
    let secondary: Vec<Series<'_>> = secondary.iter().map(|series| series.first(stop)).collect();
    let mut decisions = vec![primary_decision];
    for (_, decision) in test_family(&secondary, design, &setup) {
        decisions.push(decision);
    }
    decisions
}

/// Estimates of the primary metric after each of some numbers of blocks, for the chart of the estimate over blocks.
pub fn estimate_history(
    series: Series<'_>,
    design: &Design,
    key: &str,
    has_secondary: bool,
) -> Vec<Estimate> {
    const MAX_ESTIMATES: usize = 12;
    let first = design.min_blocks.max(2) as usize;
    let last = series.pairs.len();
    let stride = (last + 1)
        .saturating_sub(first)
        .div_ceil(MAX_ESTIMATES)
        .max(1);
    let mut history = Vec::new();
    // Backwards, so that the last block is always included.
    for blocks in (first..=last).rev().step_by(stride) {
        let so_far = series.first(blocks);
        let setup = TestSetup::new(so_far.pairs, design, key, has_secondary);
        let finding = find_family(&[so_far], design, &setup, Ends::Searched).remove(0);
        if let (Some(ratio), Some((low, high))) = (finding.ratio, finding.interval) {
            history.push(Estimate {
                blocks: blocks as u32,
                ratio,
                low,
                high,
                confidence: Some(setup.confidence(Verdict::Undecided)),
            });
        }
    }
    history.reverse();
    history
}

/// Whether the ends of the interval are searched for, which takes most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Searched,
    LeftOut,
}

/// The contrasts of a metric, or the finding if there are none.
type Checked = Result<Contrasts, Box<RuleResult>>;

/// Decides on metrics that share one error rate.
fn find_family(
    series: &[Series<'_>],
    design: &Design,
    setup: &TestSetup,
    ends: Ends,
) -> Vec<RuleResult> {
    let mut findings = Vec::new();
    for (checked, decision) in test_family(series, design, setup) {
        findings.push(match checked {
            Ok(contrasts) => find(&contrasts, decision, design, setup, ends),
            Err(finding) => *finding,
        });
    }
    findings
}

/// The contrasts of metrics that share one error rate, or the finding if there are none, and the decision on each.
fn test_family(
    series: &[Series<'_>],
    design: &Design,
    setup: &TestSetup,
) -> Vec<(Checked, Option<Decision>)> {
    let checked: Vec<Checked> = series
        .iter()
        .map(|series| check(series, setup, design))
        .collect();
    let contrasts: Vec<&Contrasts> = checked
        .iter()
        .filter_map(|metric| metric.as_ref().ok())
        .collect();
    let mut decisions = sequential_test(&contrasts, setup).into_iter();
    let mut tested = Vec::new();
    for metric in checked {
        let decision = match metric {
            Ok(_) => decisions.next().expect("each metric is tested"),
            Err(_) => None,
        };
        tested.push((metric, decision));
    }
    tested
}

/// The contrasts of a metric, or the finding if there are none.
fn check(series: &Series<'_>, setup: &TestSetup, design: &Design) -> Checked {
    let pairs = series.pairs;
    let undecided = |reason: Reason| Err(Box::new(RuleResult::undecided(reason)));
    if pairs.is_empty() {
        return undecided(Reason::NoPairs);
    }
    let is_bad = |pair: &&Pair| !(pair.baseline.is_finite() && pair.arm.is_finite());
    if let Some(pair) = pairs.iter().find(is_bad) {
        return undecided(Reason::NotANumber { block: pair.block });
    }
    if pairs.len() != setup.second.len() {
        return undecided(Reason::MissingInSomeBlocks);
    }
    Contrasts::of(pairs, series.direction, design.margin).ok_or_else(|| {
        let is_enough = pairs.len() >= design.min_blocks as usize;
        Box::new(RuleResult {
            verdict: if is_enough {
                Verdict::Equivalent
            } else {
                Verdict::Undecided
            },
            ..RuleResult::undecided(Reason::AllZero)
        })
    })
}

/// The estimate and the interval of a metric, with its decision. The first decision stands. If later blocks, run for
/// another arm, lead the estimate away from it, the finding uses the blocks up to the decision.
fn find(
    contrasts: &Contrasts,
    decision: Option<Decision>,
    design: &Design,
    setup: &TestSetup,
    ends: Ends,
) -> RuleResult {
    if let Some(Decision { verdict, at_block }) = decision
        && !contrasts.agree_with(verdict, &setup.second)
    {
        let so_far = setup.until(at_block);
        let contrasts = contrasts.first(at_block);
        return find_now(&contrasts, decision, design, &so_far, ends);
    }
    find_now(contrasts, decision, design, setup, ends)
}

fn find_now(
    contrasts: &Contrasts,
    decision: Option<Decision>,
    design: &Design,
    setup: &TestSetup,
    ends: Ends,
) -> RuleResult {
    let typical = typical(&contrasts.values, &setup.second);
    let centre = typical.shift;
    let verdict = decision.map_or(Verdict::Undecided, |decision| decision.verdict);
    let interval = match ends {
        Ends::Searched => interval(contrasts, centre, setup),
        Ends::LeftOut => None,
    };
    let equal = match (verdict, ends) {
        (Verdict::Equivalent, Ends::Searched) => {
            Some(equivalence_interval(contrasts, centre, setup))
        }
        (Verdict::Better | Verdict::Worse | Verdict::Undecided, _) | (_, Ends::LeftOut) => None,
    };
    let [interval, equal] =
        [interval, equal].map(|ends| ends.map(|(low, high)| contrasts.shown_interval(low, high)));
    let is_ratio = contrasts.kind == Kind::Ratio;
    let blocks = contrasts.values.len() as u32;
    let is_open = verdict == Verdict::Undecided && design.min_blocks <= blocks;
    let outlook = is_open.then(|| outlook(contrasts, centre, design, setup));
    RuleResult {
        verdict,
        decided_at: decision.map(|decision| decision.at_block as u32),
        ratio: is_ratio.then(|| contrasts.shown(centre)),
        interval: interval.filter(|_| is_ratio),
        equal_interval: equal.filter(|_| is_ratio),
        difference: (!is_ratio).then(|| {
            let ends = equal.or(interval);
            Shift {
                typical: contrasts.shown(centre),
                low: ends.map(|(low, _)| low),
                high: ends.map(|(_, high)| high),
            }
        }),
        noise: Some(scale(&typical.rest)),
        order_effect: Some(typical.order_effect.exp_m1()),
        spent: setup.analyses.last().map_or(0.0, |analysis| analysis.spent) / design.drawn_share(),
        more: outlook.and_then(|outlook| outlook.more(blocks)),
        confidence: equal.or(interval).map(|_| setup.confidence(verdict)),
        reason: explain(decision, outlook, design, setup),
    }
}

/// The reason of a verdict; `outlook` is that of a metric that is undecided after its first test.
fn explain(
    decision: Option<Decision>,
    outlook: Option<Outlook>,
    design: &Design,
    setup: &TestSetup,
) -> Reason {
    if let Some(Decision { verdict, at_block }) = decision {
        let blocks = at_block as u32;
        match verdict {
            Verdict::Better | Verdict::Worse => return Reason::Significant { blocks },
            Verdict::Equivalent => {
                return Reason::WithinMargin {
                    blocks,
                    margin: design.margin,
                };
            }
            Verdict::Undecided => {}
        }
    }
    let blocks = setup.second.len() as u32;
    match outlook {
        None => Reason::BeforeFirstTest {
            first_test: design.min_blocks,
            blocks,
        },
        Some(_) if interim::is_one_way(&setup.second) => Reason::AlwaysInOnePlace {
            place: if setup.second[0] > 0.0 {
                Place::Second
            } else {
                Place::First
            },
            blocks,
        },
        Some(outlook) => Reason::Inconclusive { blocks, outlook },
    }
}

/// Metrics that need more blocks than this are reported to need too many.
const MOST_REPORTED: u32 = 5000;

/// What would settle a metric, given its noise so far.
fn outlook(contrasts: &Contrasts, centre: f64, design: &Design, setup: &TestSetup) -> Outlook {
    let around = less(&contrasts.values, centre);
    let noise = scale(&around).max(planning_scale(&around));
    let so_far = contrasts.values.len() as u32;
    // Assumes no limit of blocks: those beyond the plan's spend a little more.
    let endless = Design {
        more_blocks: MOST_BLOCKS,
        ..design.clone()
    };
    let fewest = interim::smallest(setup.error_rate, &endless).unwrap_or(u32::MAX);
    let blocks = interim::expected(noise, centre, contrasts.margin, design.error_rate)
        .max(fewest)
        .max(so_far + 1);
    let most = design.most_blocks();
    if blocks <= most {
        Outlook::Within { blocks }
    } else if blocks < MOST_REPORTED {
        Outlook::Beyond { blocks, most }
    } else {
        Outlook::Never
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::design::keyed;

    const DESIGN: Design = Design {
        seed: 7,
        ..Design::DEFAULTS
    };

    /// Blocks in random order.
    fn pairs(figures: &[[f64; 2]]) -> Vec<Pair> {
        let mut prng = keyed("order");
        let pair = |(index, [baseline, arm]): (usize, &[f64; 2])| Pair {
            block: index as u32 + 1,
            baseline: *baseline,
            arm: *arm,
            arm_first: prng.bits() & 1 == 0,
        };
        figures.iter().enumerate().map(pair).collect()
    }

    fn alone(pairs: &[Pair], direction: Direction, design: &Design) -> RuleResult {
        decide(&[Series { pairs, direction }], design, "web\n7.2").remove(0)
    }

    fn check(figures: &[[f64; 2]], want: &Expect) {
        let finding = alone(&pairs(figures), Direction::Higher, &DESIGN);
        let show = |ratio: f64| format!("{ratio:.4}");
        let interval = finding.interval.map_or("none".into(), |(low, high)| {
            format!("[{}, {}]", show(low), show(high))
        });
        let ratio = finding.ratio.map_or("none".into(), show);
        let word = finding.verdict.word();
        want.assert_eq(&format!("{word} {ratio} {interval}: {:?}", finding.reason));
    }

    /// Blocks around a ratio, off by a few tenths of a percent.
    fn around(ratio: f64, noise: f64, count: u32) -> Vec<[f64; 2]> {
        let wobble = |block: u32| f64::from(block * 7 % 11) / 5.0 - 1.0;
        (0..count)
            .map(|block| [100.0, 100.0 * ratio * (1.0 + noise * wobble(block))])
            .collect()
    }

    #[test]
    fn verdicts_follow_the_blocks() {
        check(
            &around(1.073, 0.002, 10),
            &expect!["better 1.0730 [1.0711, 1.0745]: Significant { blocks: 8 }"],
        );
        check(
            &around(0.93, 0.004, 10),
            &expect!["worse 0.9299 [0.9267, 0.9326]: Significant { blocks: 8 }"],
        );
        check(
            &around(1.0, 0.002, 10),
            &expect![
                "equivalent 1.0000 [0.9982, 1.0014]: WithinMargin { blocks: 7, margin: 0.01 }"
            ],
        );
        check(
            &around(1.01, 0.03, 20),
            &expect![
                "undecided 1.0111 [0.9951, 1.0251]: Inconclusive { blocks: 20, outlook: Beyond { blocks: 62, most: 30 } }"
            ],
        );
        check(
            &around(1.03, 0.5, 30),
            &expect![
                "undecided 1.0000 [0.8094, 1.1960]: Inconclusive { blocks: 30, outlook: Never }"
            ],
        );
    }

    #[test]
    fn an_equivalent_metric_has_its_interval_as_soon_as_it_is_equivalent() {
        let finding = alone(&pairs(&around(1.0, 0.002, 7)), Direction::Higher, &DESIGN);
        assert_eq!(finding.verdict, Verdict::Equivalent);
        assert_eq!(
            finding.interval, None,
            "too few blocks to tell a difference"
        );
        let (low, high) = finding.shown_interval().unwrap();
        let margin = 1.0 / 1.01..=1.01;
        assert!(margin.contains(&low) && margin.contains(&high) && low < 1.0 && 1.0 < high);
        let zeros: Vec<[f64; 2]> = (0..12)
            .map(|block| [f64::from(block % 2), f64::from(block % 2)])
            .collect();
        let finding = alone(&pairs(&zeros), Direction::Lower, &DESIGN);
        let shift = finding.difference.unwrap();
        assert_eq!(
            (finding.verdict, finding.ratio),
            (Verdict::Equivalent, None)
        );
        assert!(shift.low.unwrap() <= shift.typical && shift.typical <= shift.high.unwrap());
    }

    #[test]
    fn later_blocks_that_lead_away_from_a_verdict_do_not_change_its_estimate() {
        for ratio in [1.05, 1.0 / 1.05] {
            let first = around(ratio, 0.002, 10);
            let turned = [first.clone(), around(1.0 / ratio, 0.002, 20)].concat();
            let directions = [first, turned].map(|blocks| {
                let finding = alone(&pairs(&blocks), Direction::Higher, &DESIGN);
                assert_eq!(finding.decided_at, Some(8));
                (finding.verdict, finding.ratio.unwrap() > 1.0)
            });
            assert_eq!(directions[0], directions[1]);
        }
    }

    #[test]
    fn figures_that_repeat_exactly_are_decided_too() {
        check(
            &[[100.0, 100.0]; 10],
            &expect![
                "equivalent 1.0000 [1.0000, 1.0000]: WithinMargin { blocks: 7, margin: 0.01 }"
            ],
        );
        check(
            &[[100.3, 103.7]; 10],
            &expect!["better 1.0339 [1.0339, 1.0339]: Significant { blocks: 8 }"],
        );
    }

    #[test]
    fn too_little_is_undecided_with_its_reason() {
        check(&[], &expect!["undecided none none: NoPairs"]);
        check(
            &[[100.0, 107.0]],
            &expect!["undecided 1.0700 none: BeforeFirstTest { first_test: 4, blocks: 1 }"],
        );
        check(
            &around(1.07, 0.002, 4),
            &expect![
                "undecided 1.0700 none: Inconclusive { blocks: 4, outlook: Within { blocks: 8 } }"
            ],
        );
    }

    #[test]
    fn an_arm_that_always_runs_second_is_not_judged() {
        let mut pairs = pairs(&around(1.07, 0.002, 10));
        for pair in &mut pairs {
            pair.arm_first = false;
        }
        let finding = alone(&pairs, Direction::Higher, &DESIGN);
        let second = Reason::AlwaysInOnePlace {
            place: Place::Second,
            blocks: 10,
        };
        assert_eq!(
            (finding.verdict, finding.reason),
            (Verdict::Undecided, second)
        );
        assert!((finding.ratio.unwrap() - 1.07).abs() < 1e-3);
        pairs[9].arm_first = true;
        let finding = alone(&pairs, Direction::Higher, &DESIGN);
        assert_eq!(finding.verdict, Verdict::Better);
    }

    #[test]
    fn zeros_are_compared_by_their_difference() {
        check(&[[0.0, 0.0]; 10], &expect!["equivalent none none: AllZero"]);
        check(
            &[[0.0, 40.0]; 10],
            &expect!["better none none: Significant { blocks: 8 }"],
        );
        check(
            &[[f64::NAN, 2.0]; 4],
            &expect!["undecided none none: NotANumber { block: 1 }"],
        );
    }

    #[test]
    fn lower_is_better_turns_the_words_and_not_the_numbers() {
        let figures = pairs(&around(0.93, 0.004, 12));
        let higher = alone(&figures, Direction::Higher, &DESIGN);
        let lower = alone(&figures, Direction::Lower, &DESIGN);
        assert_eq!(
            (higher.verdict, lower.verdict),
            (Verdict::Worse, Verdict::Better)
        );
        let ends = |finding: &RuleResult| finding.interval.unwrap();
        assert!((ends(&higher).0 - ends(&lower).0).abs() < 1e-9);
    }

    #[test]
    fn the_same_blocks_give_the_same_finding() {
        let figures = pairs(&around(1.01, 0.02, 25));
        let again = || alone(&figures, Direction::Higher, &DESIGN);
        assert_eq!(again(), again());
    }

    #[test]
    fn the_interval_excludes_no_difference_just_when_there_is_a_verdict_of_one() {
        for ratio in [0.97, 0.99, 1.004, 1.02] {
            let finding = alone(&pairs(&around(ratio, 0.02, 30)), Direction::Higher, &DESIGN);
            let Some((low, high)) = finding.interval else {
                continue;
            };
            let differs = matches!(finding.verdict, Verdict::Better | Verdict::Worse);
            if differs {
                assert!(1.0 < low || high < 1.0, "{finding:?}");
            } else {
                assert!(low <= 1.0001 && 0.9999 <= high, "{finding:?}");
            }
        }
    }
}
