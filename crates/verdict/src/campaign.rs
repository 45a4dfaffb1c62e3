//! Campaigns: how often the rule is right where the truth is known.
//!
//! A campaign is one comparison from its first block to its verdict, on a machine of `noise`, with a known effect.
//! It ends as a run does (`rule::ends`): nothing of the rule is written here a second time.

use std::ops::Range;

use record::metric::Direction;
use record::plan::Design;
use record::verdict::{Pair, Verdict};

use crate::noise::{Noise, pairs};
use crate::path::Fallen;
use crate::rule::{self, Series};

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'t> {
    /// The machine.
    pub noise: Noise,
    /// By what share the arm is better.
    pub effect: f64,
    /// Margin, error rate and blocks; each campaign has a seed of its own.
    pub design: &'t Design,
    /// Metrics; the first is the primary one. They correlate by one half.
    pub metrics: u32,
}

/// What came of some campaigns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Campaigns.
    pub all: u32,
    /// In which any metric was better.
    pub better: u32,
    /// In which any metric was worse.
    pub worse: u32,
    /// In which the primary metric was equivalent.
    pub equivalent: u32,
    /// Blocks of all campaigns until the primary metric was decided, or could not be any more.
    pub blocks: u32,
}

impl Tally {
    /// Blocks of a campaign on average.
    pub fn mean_blocks(&self) -> f64 {
        f64::from(self.blocks) / f64::from(self.all.max(1))
    }

    /// This and another one together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            better: self.better + other.better,
            worse: self.worse + other.worse,
            equivalent: self.equivalent + other.equivalent,
            blocks: self.blocks + other.blocks,
        }
    }
}

/// Runs the campaigns of some seeds.
pub fn run(terms: Terms<'_>, seeds: Range<u64>) -> Tally {
    seeds.fold(Tally::default(), |tally, seed| {
        tally.and(campaign(terms, seed))
    })
}

fn campaign(terms: Terms<'_>, seed: u64) -> Tally {
    let (ends, blocks) = play(terms, seed);
    let is = |verdict: Verdict| move |end: &Fallen| end.is_some_and(|(fell, _)| fell == verdict);
    Tally {
        all: 1,
        better: u32::from(ends.iter().any(is(Verdict::Better))),
        worse: u32::from(ends.iter().any(is(Verdict::Worse))),
        equivalent: u32::from(is(Verdict::Equivalent)(&ends[0])),
        blocks: blocks as u32,
    }
}

/// How each metric ended, and after how many blocks the run did.
fn play(terms: Terms<'_>, seed: u64) -> (Vec<Fallen>, usize) {
    let design = Design {
        seed,
        ..terms.design.clone()
    };
    let all: Vec<Vec<Pair>> = (0..terms.metrics)
        .map(|metric| measured(terms, seed, metric))
        .collect();
    let series: Vec<Series<'_>> = all
        .iter()
        .map(|pairs| Series {
            pairs,
            direction: Direction::Higher,
        })
        .collect();
    let ends = rule::ends(&series, &design, "");
    let blocks = ends[0].map_or(all[0].len(), |(_, blocks)| blocks);
    (ends, blocks)
}

/// What one metric measured: alone it is the machine's noise, among others half of it is common to all.
fn measured(terms: Terms<'_>, seed: u64, metric: u32) -> Vec<Pair> {
    let stream = |stream| {
        pairs(
            terms.noise,
            terms.effect,
            terms.design.max_blocks,
            (seed, stream),
        )
    };
    if terms.metrics == 1 {
        return stream(0);
    }
    let mix = |one: f64, other: f64| ((one.ln() + other.ln()) / 2f64.sqrt()).exp();
    let both = |(common, own): (Pair, Pair)| Pair {
        baseline: mix(common.baseline, own.baseline),
        arm: mix(common.arm, own.arm),
        ..common
    };
    stream(0)
        .into_iter()
        .zip(stream(metric + 1))
        .map(both)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{QUIET, REFERENCE};
    use crate::rule::decide;

    fn design(error_rate: f64, max_blocks: u32) -> Design {
        Design {
            margin: 0.02,
            error_rate,
            min_blocks: 8,
            max_blocks,
            seed: 0,
        }
    }

    fn terms(noise: Noise, effect: f64, design: &Design) -> Terms<'_> {
        Terms {
            noise,
            effect,
            design,
            metrics: 1,
        }
    }

    #[test]
    fn campaigns_end_as_a_run_that_stops_on_its_primary_metric() {
        for (seed, effect) in [(1, 0.0), (2, -0.05), (3, 0.03)] {
            let design = Design {
                seed,
                ..design(0.01, 40)
            };
            let terms = Terms {
                metrics: 3,
                ..terms(QUIET, effect, &design)
            };
            let (ends, stopped) = play(terms, seed);
            let all = [0, 1, 2].map(|metric| measured(terms, seed, metric));
            let judged = |blocks: usize| {
                let series = [0, 1, 2].map(|metric: usize| Series {
                    pairs: &all[metric][..blocks],
                    direction: Direction::Higher,
                });
                decide(&series, &design, "")
            };
            assert_eq!(judged(40)[0].decided_at, Some(stopped as u32));
            for (end, finding) in ends.iter().zip(judged(stopped)) {
                let verdict = end.map_or(Verdict::Undecided, |(verdict, _)| verdict);
                assert_eq!(verdict, finding.verdict);
                assert_eq!(end.map(|(_, blocks)| blocks as u32), finding.decided_at);
            }
        }
    }

    #[test]
    fn equal_arms_are_hardly_ever_told_apart_and_mostly_equivalent() {
        let design = design(0.005, 40);
        let tally = run(terms(QUIET, 0.0, &design), 0..100);
        assert!(tally.better + tally.worse <= 3, "{tally:?}");
        assert!(tally.equivalent >= 85, "{tally:?}");
    }

    #[test]
    fn a_planted_slow_down_is_found_and_never_called_a_gain() {
        let design = design(0.005, 40);
        let tally = run(terms(QUIET, -0.02, &design), 0..100);
        assert!(tally.worse >= 90 && tally.better == 0, "{tally:?}");
        let tally = run(terms(REFERENCE, -0.2, &design), 0..30);
        assert!(tally.worse >= 29 && tally.mean_blocks() < 20.0, "{tally:?}");
    }

    /// Were the error not spent, or spent twice, this would tell: 24 of 120 are expected, give or take 4.
    #[test]
    fn the_error_that_may_be_spent_is_spent() {
        let design = Design {
            margin: 1e-6,
            ..design(0.2, 30)
        };
        let tally = run(terms(QUIET, 0.0, &design), 0..120);
        assert!(
            (10..=38).contains(&(tally.better + tally.worse)),
            "{tally:?}"
        );
    }

    #[test]
    fn eight_metrics_share_one_error_rate() {
        let design = Design {
            margin: 1e-6,
            ..design(0.2, 20)
        };
        let tally = run(
            Terms {
                metrics: 8,
                ..terms(QUIET, 0.0, &design)
            },
            0..30,
        );
        assert!(tally.better + tally.worse <= 12, "{tally:?}");
    }
}
