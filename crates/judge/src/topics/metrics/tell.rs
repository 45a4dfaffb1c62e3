//! Reasons of verdicts, in words.

use base::input::units::{show_change, show_share, significant};
use record::verdict::reason::{Confounder, Outlook, Place, Reason, SampleReason, SampleUnit};
use record::verdict::{Comparison, Shift};

use crate::words::levels::in_words;
use crate::words::{self, counted};

/// The reason of a comparison's verdict. For an undecided one, it includes what would settle it.
pub fn reason(comparison: &Comparison) -> String {
    let reason = reason_words(&comparison.reason, Some(comparison));
    match comparison.difference {
        Some(difference) => with_difference(difference, comparison.confidence, &reason),
        None => reason,
    }
}

/// A reason with the difference in the metric's unit before it, for metrics without a ratio.
fn with_difference(difference: Shift, confidence: Option<f64>, reason: &str) -> String {
    let typical = significant(difference.typical, 3);
    match difference.low.zip(difference.high) {
        Some((low, high)) => {
            let (low, high) = (significant(low, 3), significant(high, 3));
            let interval = in_words(&format!("[{low}, {high}]"), confidence);
            format!("difference {typical} {interval}: {reason}")
        }
        None => format!("difference {typical}: {reason}"),
    }
}

fn reason_words(reason: &Reason, comparison: Option<&Comparison>) -> String {
    match *reason {
        Reason::Significant { blocks } => {
            format!("significant after {}", words::blocks(blocks))
        }
        Reason::WithinMargin { blocks, margin } => format!(
            "equivalent after {}: the whole confidence interval lies within the margin of {} %",
            words::blocks(blocks),
            words::margin(margin)
        ),
        Reason::AllZero => "zero in every block and both arms".into(),
        Reason::NoPairs => "no block in which both arms were measured".into(),
        Reason::NotANumber { block } => {
            let mut pairs = comparison.into_iter().flat_map(|each| &each.pairs);
            match pairs.find(|pair| pair.block == block) {
                Some(pair) => format!(
                    "figures that are no numbers in block {block}: {} and {}",
                    pair.baseline, pair.arm
                ),
                None => format!("figures that are no numbers in block {block}"),
            }
        }
        Reason::MissingInSomeBlocks => "not measured in every block".into(),
        Reason::BeforeFirstTest { first_test, blocks } => {
            format!("first test after block {first_test}: {blocks} so far")
        }
        // With a single block no seed has both orders, so the sentence suggests none.
        Reason::AlwaysInOnePlace { blocks: 1, .. } => {
            "one block: the effects of the arm and of its place cannot be separated".into()
        }
        Reason::AlwaysInOnePlace { place, blocks } => {
            let place = match place {
                Place::First => "before",
                Place::Second => "after",
            };
            format!(
                "the arm ran {place} the baseline in all {blocks} blocks, so the two effects cannot be separated (choose another seed)"
            )
        }
        Reason::SignificantOverNodes { nodes } => format!(
            "significant over {}, each with the mean of its blocks",
            counted(nodes, "node")
        ),
        Reason::WithinMarginOverNodes { nodes, margin } => format!(
            "equivalent over {}, each with the mean of its blocks: the whole confidence interval lies within the margin of {} %",
            counted(nodes, "node"),
            words::margin(margin)
        ),
        Reason::InconclusiveOverNodes { nodes } => format!(
            "{} show nothing of machines in general (more nodes might, more blocks of these hardly)",
            counted(nodes, "node")
        ),
        Reason::TooFewNodes { nodes, least } => format!(
            "too few nodes for a claim about machines at this error rate: {nodes} (at least {least})"
        ),
        Reason::StringShares {
            shares: [baseline, arm],
        } => format!(
            "not comparable: {} of the baseline's instructions and {} of the arm's are iterations of string instructions, which the \
             guest's clock counts in full (measure it by the wall clock)",
            show_share(baseline, 2),
            show_share(arm, 2)
        ),
        Reason::Inconclusive { blocks, outlook } => {
            let open = comparison.map_or_else(String::new, open_range);
            open + &to_settle(outlook, blocks)
        }
    }
}

/// The range of changes that an undecided metric's interval leaves open.
fn open_range(comparison: &Comparison) -> String {
    match (comparison.low, comparison.high, comparison.difference) {
        (Some(low), Some(high), _) => {
            let (low, high) = (show_change(low), show_change(high));
            format!("the change could be anywhere from {low} to {high}: ")
        }
        (_, _, None) => "too few blocks to rule out anything: ".into(),
        (_, _, Some(_)) => String::new(),
    }
}

fn to_settle(outlook: Outlook, so_far: u32) -> String {
    match outlook {
        Outlook::Within { .. } => format!(
            "about {} more would decide it at this noise",
            words::blocks(outlook.more(so_far).unwrap_or(1))
        ),
        Outlook::Beyond { blocks, most } => format!(
            "about {blocks} blocks would be needed at this noise, and the plan allows {most} (bakeoff run PLAN \
             --more-blocks {}; a longer window also helps)",
            blocks - most,
        ),
        Outlook::Never => {
            "more blocks would not decide it at this noise (a longer window may)".into()
        }
    }
}

/// The reason of a verdict on figures that another program measured.
pub fn sample_reason(reason: &SampleReason) -> String {
    match *reason {
        SampleReason::Rule { reason } => reason_words(&reason, None),
        SampleReason::RepeatedFigure => "the same figure in every run of both arms".into(),
        SampleReason::RepeatedInBlocks => "both arms have the same figure in every block".into(),
        SampleReason::TooFew { count, least, unit } => format!(
            "too few for any verdict at this error rate: {count} {} (at least {least}; or accept more errors)",
            units(unit)
        ),
        SampleReason::BeyondMargin { margin, confounder } => format!(
            "the whole confidence interval lies beyond the margin of {}; {}",
            show_share(margin, 3),
            doubt(confounder)
        ),
        SampleReason::NotSurelyBeyondMargin { margin, confounder } => format!(
            "a difference, but not surely one beyond the margin of {}; {}",
            show_share(margin, 3),
            doubt(confounder)
        ),
        SampleReason::NoneBeyondMargin { margin, confounder } => format!(
            "no difference beyond the margin of {} is seen; {}",
            show_share(margin, 3),
            doubt(confounder)
        ),
        SampleReason::Inconclusive {
            margin,
            needed,
            unit,
        } => {
            let (margin, units) = (show_share(margin, 3), units(unit));
            match needed {
                Some(needed) => format!(
                    "inconclusive (about {needed} {units} would settle a margin of {margin})"
                ),
                None => format!(
                    "inconclusive (a margin of {margin} needs more than {} {units}: measure longer, or more quietly)",
                    SampleReason::MOST_NEEDED
                ),
            }
        }
        SampleReason::OneRunOfEach => {
            "one run of each arm: its samples say nothing about the next run (repeat the whole run, arms in random order; \
             or --samples-are-runs, if they are)"
                .into()
        }
    }
}

/// Like `sample_reason`, with names and numbers of runs of both arms, which may differ.
pub fn sample_reason_of(
    reason: &SampleReason,
    [(baseline, baseline_runs), (arm, arm_runs)]: [(&str, usize); 2],
) -> String {
    match *reason {
        SampleReason::TooFew {
            least,
            unit: SampleUnit::RunsOfEachArm,
            ..
        } if baseline_runs != arm_runs => format!(
            "too few for any verdict at this error rate: {baseline_runs} of {baseline} and {arm_runs} of {arm} (at least {least} of \
             each; or accept more errors)"
        ),
        _ => sample_reason(reason),
    }
}

fn units(unit: SampleUnit) -> &'static str {
    match unit {
        SampleUnit::Blocks => "blocks",
        SampleUnit::RunsOfEachArm => "runs of each arm",
    }
}

fn doubt(confounder: Confounder) -> &'static str {
    match confounder {
        Confounder::Order => "what ran second may differ by that alone (draw the order at random)",
        Confounder::Drift => {
            "confounded with drift of the machine (run them in pairs, in random order)"
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use record::fixtures::web;

    use super::*;
    use crate::report::judged;

    /// The reason of a comparison of nine blocks after a change.
    fn check(change: impl FnOnce(&mut Comparison), want: &Expect) {
        let (_, judgement) = judged(web::two_kernels());
        let mut comparison = judgement.comparisons[0].clone();
        change(&mut comparison);
        want.assert_eq(&reason(&comparison));
    }

    fn undecided(outlook: Outlook) -> Reason {
        Reason::Inconclusive {
            blocks: 20,
            outlook,
        }
    }

    #[test]
    fn a_decision_is_reported_with_its_block() {
        check(|_| {}, &expect!["significant after 9 blocks"]);
        check(
            |comparison| {
                comparison.reason = Reason::WithinMargin {
                    blocks: 7,
                    margin: 0.01,
                };
            },
            &expect![
                "equivalent after 7 blocks: the whole confidence interval lies within the margin of 1.0 %"
            ],
        );
    }

    #[test]
    fn an_undecided_metric_is_reported_with_its_range_and_what_would_settle_it() {
        let beyond = Outlook::Beyond {
            blocks: 80,
            most: 30,
        };
        check(
            |comparison| {
                (comparison.low, comparison.high) = (Some(0.9951), Some(1.0252));
                comparison.reason = undecided(beyond);
            },
            &expect![
                "the change could be anywhere from -0.49 % to +2.52 %: about 80 blocks would be needed at this noise, and the plan allows 30 (bakeoff run PLAN --more-blocks 50; a longer window also helps)"
            ],
        );
        check(
            |comparison| {
                (comparison.low, comparison.high) = (None, None);
                comparison.reason = undecided(Outlook::Within { blocks: 24 });
            },
            &expect![
                "too few blocks to rule out anything: about 4 blocks more would decide it at this noise"
            ],
        );
        check(
            |comparison| {
                comparison.reason = Reason::BeforeFirstTest {
                    first_test: 4,
                    blocks: 1,
                };
            },
            &expect!["first test after block 4: 1 so far"],
        );
        check(
            |comparison| {
                comparison.reason = Reason::AlwaysInOnePlace {
                    place: Place::Second,
                    blocks: 10,
                };
            },
            &expect![
                "the arm ran after the baseline in all 10 blocks, so the two effects cannot be separated (choose another seed)"
            ],
        );
    }

    #[test]
    fn without_a_ratio_the_reason_begins_with_the_difference() {
        let with_difference = |low, high| {
            move |comparison: &mut Comparison| {
                (comparison.ratio, comparison.low, comparison.high) = (None, None, None);
                comparison.difference = Some(Shift {
                    typical: 40.0,
                    low,
                    high,
                });
            }
        };
        check(
            with_difference(Some(40.0), Some(41.5)),
            &expect!["difference 40.0 [40.0, 41.5] (97.5 % interval): significant after 9 blocks"],
        );
        check(
            |comparison| {
                with_difference(None, None)(comparison);
                comparison.reason = undecided(Outlook::Never);
            },
            &expect![
                "difference 40.0: more blocks would not decide it at this noise (a longer window may)"
            ],
        );
    }

    #[test]
    fn figures_that_cannot_be_compared_are_reported() {
        check(
            |comparison| {
                let pair = &mut comparison.pairs[0];
                (pair.baseline, pair.arm) = (f64::NAN, 2.0);
                comparison.reason = Reason::NotANumber { block: 1 };
            },
            &expect!["figures that are no numbers in block 1: NaN and 2"],
        );
        check(
            |comparison| comparison.reason = Reason::NoPairs,
            &expect!["no block in which both arms were measured"],
        );
        check(
            |comparison| comparison.reason = Reason::AllZero,
            &expect!["zero in every block and both arms"],
        );
    }
}
