//! What estimates and intervals say where the truth and what the order does are known.

use std::ops::Range;

use plan::Design;
use record::metric::Direction;
use record::verdict::{Pair, Verdict};

use crate::noise_models::{Noise, pairs};
use crate::rule;
use crate::rule::{Finding, Series};

/// What is tried: a run of one metric whose blocks differ by nothing but a normal deviation, the arm and the order.
#[derive(Debug, Clone, Copy)]
pub struct OrderTerms<'t> {
    /// Scale of the contrast of a block, on the logarithm: what all else is a multiple of.
    pub noise: f64,
    /// How far the arm is above the baseline.
    pub effect: f64,
    /// How far the second trial of a block is above the first.
    pub second: f64,
    /// In how many of the plan's blocks the arm runs second; `None` where chance says.
    pub arm_second: Option<u32>,
    /// Margin, error rate and blocks; each simulation has a seed of its own.
    pub design: &'t Design,
}

/// What came of some simulations.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimates {
    /// Simulations: of seeds that draw such an order.
    pub all: u32,
    /// How far estimates are above the truth, as multiples of the noise, added up.
    pub errors: f64,
    /// That say better or worse of an arm whose estimate says otherwise.
    pub contradicted: u32,
    /// That have an interval.
    pub with_interval: u32,
    /// Whose interval holds the truth.
    pub holding: u32,
    /// Whose estimate lies outside its own interval.
    pub outside: u32,
}

impl Estimates {
    /// How far an estimate is above the truth on average, as a multiple of the noise.
    pub fn mean_error(&self) -> f64 {
        self.errors / f64::from(self.all.max(1))
    }

    /// This and another one together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            errors: self.errors + other.errors,
            contradicted: self.contradicted + other.contradicted,
            with_interval: self.with_interval + other.with_interval,
            holding: self.holding + other.holding,
            outside: self.outside + other.outside,
        }
    }
}

/// Runs the simulations of some seeds, of which those count that draw such an order.
pub fn estimates(terms: OrderTerms<'_>, seeds: Range<u64>) -> Estimates {
    seeds.fold(Estimates::default(), |sum, seed| {
        match simulation(terms, seed) {
            Some(one) => sum.and(one),
            None => sum,
        }
    })
}

/// One simulation; `None` where its seed draws another order.
fn simulation(terms: OrderTerms<'_>, seed: u64) -> Option<Estimates> {
    let truth = terms.noise * terms.effect;
    let second = (terms.noise * terms.second).exp_m1();
    let machine = Noise::as_measured(terms.noise, second, 0.0);
    let pairs = pairs(machine, truth.exp_m1(), terms.design.max_blocks, (seed, 0));
    let drawn = pairs.iter().filter(|pair| !pair.arm_first).count() as u32;
    if terms.arm_second.is_some_and(|asked| asked != drawn) {
        return None;
    }
    let design = Design {
        seed,
        ..terms.design.clone()
    };
    let finding = at_stop(&pairs, &design);
    let ratio = finding.ratio.expect("no figure is zero");
    let is_gain = ratio > 1.0;
    let interval = finding.shown_interval();
    let holds = |value: f64| interval.is_some_and(|(low, high)| (low..=high).contains(&value));
    Some(Estimates {
        all: 1,
        errors: (ratio.ln() - truth) / terms.noise,
        contradicted: u32::from(match finding.verdict {
            Verdict::Better => !is_gain,
            Verdict::Worse => is_gain,
            Verdict::Equivalent | Verdict::Undecided => false,
        }),
        with_interval: u32::from(interval.is_some()),
        holding: u32::from(holds(truth.exp())),
        outside: u32::from(interval.is_some() && !holds(ratio)),
    })
}

/// What is said of a run where it stops.
fn at_stop(pairs: &[Pair], design: &Design) -> Finding {
    let series = Series {
        pairs,
        direction: Direction::Higher,
    };
    let stop = rule::decisions_at_stop(&[series], design, "")[0];
    let blocks = stop.map_or(pairs.len(), |decision| decision.at_block);
    rule::decide(&[series.first(blocks)], design, "").remove(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(max_blocks: u32) -> Design {
        Design {
            margin: 0.02,
            error_rate: 0.05,
            min_blocks: 4,
            max_blocks,
            more_blocks: 0,
            seed: 0,
            arms: 0,
        }
    }

    fn terms(design: &Design, arm_second: Option<u32>) -> OrderTerms<'_> {
        OrderTerms {
            noise: 0.01,
            effect: 3.0,
            second: 5.0,
            arm_second,
            design,
        }
    }

    /// Of this seed the arm, 3 % better, runs first in the first ten blocks, where it loses more than that by going first. At the
    /// eleventh block the sign flips reject "no difference", as if it were worse; the estimate says +3.2 %.
    #[test]
    fn an_order_that_speaks_against_the_estimate_gives_no_verdict() {
        let design = design(12);
        let told = estimates(terms(&design, Some(2)), 58_726..58_727);
        assert_eq!((told.all, told.contradicted), (1, 0), "{told:?}");
    }

    /// An estimate that took a part of the difference for the order's would be too low by about the noise of a block.
    #[test]
    fn what_the_order_does_is_no_part_of_an_estimate() {
        let design = design(6);
        for (arm_second, seeds) in [(None, 60), (Some(1), 600)] {
            let told = estimates(terms(&design, arm_second), 0..seeds);
            assert!(told.all >= 30, "{told:?}");
            // Four standard errors of a mean of 30 of six blocks.
            assert!(told.mean_error().abs() < 0.4, "{told:?}");
            assert_eq!((told.contradicted, told.outside), (0, 0), "{told:?}");
            assert!(told.holding * 10 >= told.with_interval * 8, "{told:?}");
        }
        assert_eq!(estimates(terms(&design, Some(7)), 0..20).all, 0);
    }
}
