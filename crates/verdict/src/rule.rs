//! The rule R*: what may be said of an arm, given its blocks with the baseline.
//!
//! ```text
//! pairs -> contrasts -> looks (how much error to spend) -> path (which boundary is crossed, and when)
//!                                                       -> estimate, interval, noise, slot effect
//! ```
//! - The primary metric of a workload has half of the plan's error rate, all other metrics share the other half; a
//!   metric that is alone has all of it. "Equivalent" is a claim of its own and may be wrong as often as the plan says.
//! - The interval is valid however often was looked. That of the primary metric excludes "no difference" just when
//!   the metric is better or worse; those of other metrics hold each by itself. An equivalent metric has the interval of
//!   its own claim instead, which lies within the margin and needs fewer blocks.
//! - The error rate is one workload's and one arm's. A plan of many has as many chances to be wrong.
//!
//! What it assumes: the order in a block was drawn by a fair coin. What it does not do: heed the slow trial among
//! ten; that is `stability`'s.

use record::metric::Direction;
use record::plan::{Design, MOST_BLOCKS};
use record::units::{show_change, significant};
use record::verdict::{Pair, Shift, Verdict};

use crate::coin::Coins;
use crate::contrast::{Contrasts, Kind};
use crate::path::{self, Course, Fallen};
use crate::plan::{self, Look};
use crate::score::{centred, hodges_lehmann, planning_scale, scale};

/// The rule's name in a judgement.
pub(crate) const NAME: &str = "r-star";

/// One metric of one arm, block by block.
#[derive(Debug, Clone, Copy)]
pub struct Series<'s> {
    /// Baseline and arm in each block.
    pub pairs: &'s [Pair],
    /// Which way is better.
    pub direction: Direction,
}

/// What the rule says of one metric of one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// Blocks after which it fell.
    pub decided_at: Option<u32>,
    /// Arm over baseline, typical over blocks; `None` where figures are zero.
    pub ratio: Option<f64>,
    /// The ratio's interval at the error rate of "better" and "worse"; `None` while every ratio fits.
    pub interval: Option<(f64, f64)>,
    /// The ratio's interval that "equivalent" stands on: at that claim's own error rate, and within the margin.
    pub equal_interval: Option<(f64, f64)>,
    /// The difference in the metric's unit with the interval of its verdict, where some figures are zero.
    pub difference: Option<Shift>,
    /// Scale of the contrasts of a block around the estimate: paired log-ratios, where there are ratios.
    pub noise: Option<f64>,
    /// What being second in a block does to a trial, as a share.
    pub slot: Option<f64>,
    /// Share of the plan's error rate that has been spent; above 1 where the run was given more blocks than the plan's.
    pub spent: f64,
    /// Blocks more that would settle an undecided one; `None` where it is not undecided, or nothing would.
    pub more: Option<u32>,
    /// Why, in a sentence.
    pub reason: String,
}

impl Finding {
    fn silent(reason: String) -> Self {
        Self {
            verdict: Verdict::Undecided,
            decided_at: None,
            ratio: None,
            interval: None,
            equal_interval: None,
            difference: None,
            noise: None,
            slot: None,
            spent: 0.0,
            more: None,
            reason,
        }
    }

    /// The interval that belongs to the verdict.
    pub fn shown_interval(&self) -> Option<(f64, f64)> {
        match self.verdict {
            Verdict::Equivalent => self.equal_interval,
            Verdict::Better | Verdict::Worse | Verdict::Undecided => self.interval,
        }
    }
}

/// Decides on the metrics of one workload and arm; the first is the primary one. `key` names them, so that each
/// comparison has coins of its own.
pub fn decide(series: &[Series<'_>], design: &Design, key: &str) -> Vec<Finding> {
    let Some(primary) = series.first() else {
        return Vec::new();
    };
    let course = Route::lay(primary, design, key, series.len() > 1);
    let mut findings = family(&series[..1], design, &course);
    findings.extend(family(&series[1..], design, &course));
    findings
}

/// The verdict on a primary metric alone, and the blocks after which its run needs no more; without the estimate and the
/// interval, which cost most of the time.
pub(crate) fn fall(
    series: Series<'_>,
    design: &Design,
    key: &str,
    shared: bool,
) -> Option<(Verdict, u32)> {
    let contrasts = Contrasts::of(series.pairs, series.direction, design.margin)?;
    let route = Route::lay(&series, design, key, shared);
    let last = series.pairs.len();
    let fallen = path::follow(&[&contrasts], route.course()).remove(0);
    let (verdict, blocks) = fallen.unwrap_or((Verdict::Undecided, last));
    Some((verdict, blocks as u32))
}

/// How the metrics of a run end that stops on its primary one, and after how many blocks; without estimates and intervals,
/// which cost most of the time. The first is the primary one, as for `decide`.
pub(crate) fn ends(series: &[Series<'_>], design: &Design, key: &str) -> Vec<Fallen> {
    let Some((primary, others)) = series.split_first() else {
        return Vec::new();
    };
    let shared = !others.is_empty();
    let route = Route::lay(primary, design, key, shared);
    let mut ends = vec![follow(&[*primary], design, &route).remove(0).1];
    let stopped = ends[0].map_or(primary.pairs.len(), |(_, blocks)| blocks);
    let mut until_then = series.to_vec();
    for series in &mut until_then {
        series.pairs = &series.pairs[..stopped.min(series.pairs.len())];
    }
    let route = Route::lay(&until_then[0], design, key, shared);
    let others = follow(&until_then[1..], design, &route);
    ends.extend(others.into_iter().map(|(_, fallen)| fallen));
    ends
}

/// The primary metric alone after each of some numbers of blocks: ratio and interval, for the picture of how a verdict
/// ripened.
pub fn ripen(
    series: Series<'_>,
    design: &Design,
    key: &str,
    shared: bool,
) -> Vec<(u32, f64, f64, f64)> {
    const MOST: usize = 12;
    let first = design.min_blocks.max(2) as usize;
    let ends: Vec<usize> = (first..=series.pairs.len()).collect();
    let every = ends.len().div_ceil(MOST).max(1);
    let after = |end: &usize| {
        let series = Series {
            pairs: &series.pairs[..*end],
            ..series
        };
        let route = Route::lay(&series, design, key, shared);
        let finding = family(&[series], design, &route).remove(0);
        let (low, high) = finding.interval?;
        Some((*end as u32, finding.ratio?, low, high))
    };
    ends.iter()
        .rev()
        .step_by(every)
        .rev()
        .filter_map(after)
        .collect()
}

/// What all metrics of a workload and arm share.
struct Route {
    coins: Coins,
    second: Vec<f64>,
    looks: Vec<Look>,
    error_rate: f64,
    equal_rate: f64,
}

impl Route {
    /// Lays the looks out by the primary metric, on which the run stops.
    fn lay(primary: &Series<'_>, design: &Design, key: &str, shared: bool) -> Route {
        let blocks = primary.pairs.len();
        let second = |pair: &Pair| if pair.arm_first { -1.0 } else { 1.0 };
        let second: Vec<f64> = primary.pairs.iter().map(second).collect();
        let share = if shared { 0.5 } else { 1.0 };
        Route {
            coins: Coins::throw_on(
                &format!("signs\n{}\n{key}", design.seed),
                blocks,
                (design.max_blocks as usize, design.most_blocks() as usize),
            ),
            looks: plan::looks(&second, design),
            second,
            error_rate: share * design.error_rate,
            equal_rate: plan::equal_rate(design),
        }
    }

    fn course(&self) -> Course<'_> {
        Course {
            coins: &self.coins,
            second: &self.second,
            looks: &self.looks,
            error_rate: self.error_rate,
            equal_rate: self.equal_rate,
        }
    }
}

/// The contrasts of a metric, or what is said where there are none.
type Checked = Result<Contrasts, Box<Finding>>;

/// Decides on metrics that share one error rate.
fn family(series: &[Series<'_>], design: &Design, route: &Route) -> Vec<Finding> {
    let find = |(checked, fallen): (Checked, Fallen)| match checked {
        Ok(contrasts) => find(&contrasts, fallen, design, route),
        Err(finding) => *finding,
    };
    follow(series, design, route)
        .into_iter()
        .map(find)
        .collect()
}

/// The contrasts of metrics that share one error rate, or why there are none, and how each metric ends.
fn follow(series: &[Series<'_>], design: &Design, route: &Route) -> Vec<(Checked, Fallen)> {
    let checked: Vec<Checked> = series
        .iter()
        .map(|each| check(each, route, design))
        .collect();
    let known: Vec<&Contrasts> = checked
        .iter()
        .filter_map(|each| each.as_ref().ok())
        .collect();
    let mut fallen = path::follow(&known, route.course()).into_iter();
    let end = |each: Checked| {
        let fallen = match each {
            Ok(_) => fallen.next().expect("each metric has its own end"),
            Err(_) => None,
        };
        (each, fallen)
    };
    checked.into_iter().map(end).collect()
}

/// The contrasts of a metric, or why there are none.
fn check(series: &Series<'_>, route: &Route, design: &Design) -> Checked {
    let pairs = series.pairs;
    let silent = |reason: &str| Err(Box::new(Finding::silent(reason.into())));
    if pairs.is_empty() {
        return silent("no block in which both arms were measured");
    }
    let is_bad = |pair: &&Pair| !(pair.baseline.is_finite() && pair.arm.is_finite());
    if let Some(pair) = pairs.iter().find(is_bad) {
        let figures = format!("{} and {}", pair.baseline, pair.arm);
        return silent(&format!(
            "figures that are no numbers in block {}: {figures}",
            pair.block
        ));
    }
    if pairs.len() != route.second.len() {
        return silent("not measured in every block");
    }
    Contrasts::of(pairs, series.direction, design.margin).ok_or_else(|| {
        let enough = pairs.len() >= design.min_blocks as usize;
        Box::new(Finding {
            verdict: if enough {
                Verdict::Equivalent
            } else {
                Verdict::Undecided
            },
            ..Finding::silent("zero in every block and both arms".into())
        })
    })
}

fn find(contrasts: &Contrasts, fallen: Fallen, design: &Design, route: &Route) -> Finding {
    let (values, slot) = centred(&contrasts.values, &route.second);
    let centre = hodges_lehmann(&values);
    let around: Vec<f64> = values.iter().map(|value| value - centre).collect();
    let verdict = fallen.map_or(Verdict::Undecided, |(verdict, _)| verdict);
    let show = |interval: Option<(f64, f64)>| interval.map(|its| contrasts.shown_interval(its));
    let shown = show(path::interval(contrasts, centre, route.course()));
    let equal = match verdict {
        Verdict::Equivalent => show(Some(equal_interval(contrasts, centre, route))),
        Verdict::Better | Verdict::Worse | Verdict::Undecided => None,
    };
    let is_ratio = contrasts.kind == Kind::Ratio;
    let spent = route.looks.last().map_or(0.0, |look| look.information);
    let mut finding = Finding {
        verdict,
        decided_at: fallen.map(|(_, blocks)| blocks as u32),
        ratio: is_ratio.then(|| contrasts.shown(centre)),
        interval: shown.filter(|_| is_ratio),
        equal_interval: equal.filter(|_| is_ratio),
        difference: (!is_ratio).then(|| {
            let its = equal.or(shown);
            Shift {
                typical: contrasts.shown(centre),
                low: its.map(|(low, _)| low),
                high: its.map(|(_, high)| high),
            }
        }),
        noise: Some(scale(&around)),
        slot: Some(slot.exp_m1()),
        spent,
        more: None,
        reason: String::new(),
    };
    let is_open = finding.verdict == Verdict::Undecided;
    if is_open && values.len() >= design.min_blocks as usize {
        finding.more = outlook(contrasts, centre, (design, route)).more(values.len() as u32);
    }
    finding.reason = explain(&finding, contrasts, centre, (design, route));
    if let Some(shift) = finding.difference {
        let difference = significant(shift.typical, 3);
        let within = shift.low.zip(shift.high);
        let within = within.map_or(String::new(), |(low, high)| {
            format!(" [{}, {}]", significant(low, 3), significant(high, 3))
        });
        finding.reason = format!("difference {difference}{within}: {}", finding.reason);
    }
    finding
}

/// The shifts that the test behind "equivalent" never excluded. It excluded both margins, so none lies beyond them.
fn equal_interval(contrasts: &Contrasts, centre: f64, route: &Route) -> (f64, f64) {
    let course = Course {
        error_rate: 2.0 * route.equal_rate,
        ..route.course()
    };
    let margin = contrasts.margin;
    let found = path::interval(contrasts, centre, course);
    let (low, high) = found.unwrap_or((-margin, margin));
    (low.clamp(-margin, margin), high.clamp(-margin, margin))
}

fn explain(
    finding: &Finding,
    contrasts: &Contrasts,
    centre: f64,
    (design, route): (&Design, &Route),
) -> String {
    let margin = format!("{} %", significant(design.margin * 100.0, 2));
    let at = finding.decided_at.unwrap_or(0);
    match finding.verdict {
        Verdict::Better | Verdict::Worse => {
            format!("significant after {at} blocks")
        }
        Verdict::Equivalent => {
            format!(
                "equivalent after {at} blocks: the whole confidence interval lies within the margin of {margin}"
            )
        }
        Verdict::Undecided if contrasts.values.len() < design.min_blocks as usize => {
            let so_far = contrasts.values.len();
            format!(
                "first test after block {}: {so_far} so far",
                design.min_blocks
            )
        }
        Verdict::Undecided if plan::is_one_way(&route.second) => {
            let place = if route.second[0] > 0.0 {
                "second"
            } else {
                "first"
            };
            format!(
                "the arm ran {place} in all {} blocks, so that nobody can tell it from its place (write another seed)",
                route.second.len()
            )
        }
        Verdict::Undecided => {
            let reach = match (finding.interval, contrasts.kind) {
                (Some((low, high)), _) => {
                    format!(
                        "anything from {} to {} fits the blocks: ",
                        show_change(low),
                        show_change(high)
                    )
                }
                (None, Kind::Ratio) => "too few blocks to exclude anything: ".into(),
                (None, Kind::Difference) => String::new(),
            };
            let outlook = outlook(contrasts, centre, (design, route));
            let so_far = contrasts.values.len() as u32;
            format!("{reach}{}", outlook.words(so_far, design.most_blocks()))
        }
    }
}

/// So many blocks nobody would run.
const HOPELESS: u32 = MOST_BLOCKS / 2;

/// What would settle it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlook {
    /// So many blocks in all, which the run may have.
    Within(u32),
    /// So many blocks in all, more than the run may have.
    Beyond(u32),
    /// No number of blocks that anyone would run.
    Never,
}

impl Outlook {
    fn more(self, so_far: u32) -> Option<u32> {
        match self {
            Self::Within(blocks) | Self::Beyond(blocks) => {
                Some(blocks.saturating_sub(so_far).max(1))
            }
            Self::Never => None,
        }
    }

    fn words(self, so_far: u32, most: u32) -> String {
        match self {
            Self::Within(blocks) => format!(
                "about {} blocks more would settle it at this noise",
                blocks.saturating_sub(so_far).max(1)
            ),
            Self::Beyond(blocks) => format!(
                "about {blocks} blocks would settle it at this noise, and it ends at {most} (bakeoff run PLAN \
                 --more-blocks {}, or make the window longer)",
                blocks - most,
            ),
            Self::Never => {
                "more blocks of this noise would not settle it (make the window longer)".into()
            }
        }
    }
}

fn outlook(contrasts: &Contrasts, centre: f64, (design, route): (&Design, &Route)) -> Outlook {
    let around: Vec<f64> = contrasts
        .values
        .iter()
        .map(|value| value - centre)
        .collect();
    let noise = scale(&around).max(planning_scale(&around));
    let so_far = contrasts.values.len() as u32;
    // As if it might have any number of blocks: those beyond the plan's spend a little more.
    let endless = Design {
        more_blocks: MOST_BLOCKS,
        ..design.clone()
    };
    let fewest = plan::smallest(route.error_rate, &endless).unwrap_or(u32::MAX);
    let wanted = plan::expected(noise, centre, contrasts.margin, design.error_rate)
        .max(fewest)
        .max(so_far + 1);
    match wanted {
        blocks if blocks <= design.most_blocks() => Outlook::Within(blocks),
        blocks if blocks < HOPELESS => Outlook::Beyond(blocks),
        _ => Outlook::Never,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::design::keyed;

    const DESIGN: Design = Design {
        margin: 0.01,
        error_rate: 0.05,
        min_blocks: 4,
        max_blocks: 30,
        more_blocks: 0,
        seed: 7,
    };

    /// Blocks whose order was drawn by coin.
    fn pairs(figures: &[[f64; 2]]) -> Vec<Pair> {
        let mut dice = keyed("order");
        let pair = |(index, [baseline, arm]): (usize, &[f64; 2])| Pair {
            block: index as u32 + 1,
            baseline: *baseline,
            arm: *arm,
            arm_first: dice.bits() & 1 == 0,
        };
        figures.iter().enumerate().map(pair).collect()
    }

    fn alone(pairs: &[Pair], direction: Direction, design: &Design) -> Finding {
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
        want.assert_eq(&format!("{word} {ratio} {interval}: {}", finding.reason));
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
            &expect!["better 1.0730 [1.0711, 1.0745]: significant after 8 blocks"],
        );
        check(
            &around(0.93, 0.004, 10),
            &expect!["worse 0.9300 [0.9267, 0.9326]: significant after 8 blocks"],
        );
        check(
            &around(1.0, 0.002, 10),
            &expect![
                "equivalent 0.9999 [0.9982, 1.0014]: equivalent after 7 blocks: the whole confidence interval lies within the margin of 1.0 %"
            ],
        );
        check(
            &around(1.01, 0.03, 20),
            &expect![
                "undecided 1.0096 [0.9951, 1.0252]: anything from -0.49 % to +2.52 % fits the blocks: about 80 blocks would settle it at this noise, and it ends at 30 (bakeoff run PLAN --more-blocks 50, or make the window longer)"
            ],
        );
        check(
            &around(1.0, 0.5, 30),
            &expect![
                "undecided 0.9863 [0.7856, 1.1615]: anything from -21.44 % to +16.15 % fits the blocks: more blocks of this noise would not settle it (make the window longer)"
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
    fn figures_that_repeat_exactly_are_decided_too() {
        check(
            &[[100.0, 100.0]; 10],
            &expect![
                "equivalent 1.0000 [1.0000, 1.0000]: equivalent after 7 blocks: the whole confidence interval lies within the margin of 1.0 %"
            ],
        );
        check(
            &[[100.3, 103.7]; 10],
            &expect!["better 1.0339 [1.0339, 1.0339]: significant after 8 blocks"],
        );
    }

    #[test]
    fn too_little_is_undecided_with_its_reason() {
        check(
            &[],
            &expect!["undecided none none: no block in which both arms were measured"],
        );
        check(
            &[[100.0, 107.0]],
            &expect!["undecided 1.0700 none: first test after block 4: 1 so far"],
        );
        check(
            &around(1.07, 0.002, 4),
            &expect![
                "undecided 1.0700 none: too few blocks to exclude anything: about 4 blocks more would settle it at this noise"
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
        expect!["Undecided 1.070: the arm ran second in all 10 blocks, so that nobody can tell it from its place (write another seed)"]
            .assert_eq(&format!("{:?} {:.3}: {}", finding.verdict, finding.ratio.unwrap(), finding.reason));
        pairs[9].arm_first = true;
        let finding = alone(&pairs, Direction::Higher, &DESIGN);
        assert_eq!(finding.verdict, Verdict::Better);
    }

    #[test]
    fn zeros_are_compared_by_their_difference() {
        check(
            &[[0.0, 0.0]; 10],
            &expect!["equivalent none none: zero in every block and both arms"],
        );
        check(
            &[[0.0, 40.0]; 10],
            &expect!["better none none: difference 40.0 [40.0, 40.0]: significant after 8 blocks"],
        );
        check(
            &[[f64::NAN, 2.0]; 4],
            &expect!["undecided none none: figures that are no numbers in block 1: NaN and 2"],
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
        let ends = |finding: &Finding| finding.interval.unwrap();
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
