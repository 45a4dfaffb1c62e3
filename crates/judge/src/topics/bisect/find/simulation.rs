//! Calibration of bisection: how often it is right if the truth is known, and how many blocks it takes.
//!
//! It is compared with plain bisection, which measures each version a fixed number of times and takes the majority, and with a lower
//! bound for any method: Shannon's for a channel with the same error rate as the simulated answers.

use std::collections::BTreeSet;
use std::ops::Range;

use plan::Design;
use record::bisect::{BisectBlock, Conclusion};

use super::{Question, evaluate};
use stats::design::keyed;
use stats::noise_models::{Noise, Slot, Trials};
use stats::posterior::{Answer, entropy};

/// Parameters of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'t> {
    /// Noise of the machine.
    pub noise: Noise,
    /// Improvement of the versions after the step, as a share: 0.1 is 10 % better.
    pub effect: f64,
    /// Number of steps, one of which makes the difference.
    pub steps: usize,
    /// Margin, error rate and blocks. The seed is replaced in each simulation.
    pub design: &'t Design,
    /// As `Question::first_cost`.
    pub first_cost: f64,
}

/// Outcomes of simulated bisections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of bisections.
    pub all: u32,
    /// Bisections that found a wrong step, or found the ends equivalent.
    pub wrong: u32,
    /// Bisections that ended undecided.
    pub undecided: u32,
    /// Blocks of all bisections.
    pub blocks: u32,
    /// Blocks whose candidate was nearer to the wrong end.
    pub wrong_answers: u32,
}

impl Tally {
    /// Average blocks of a bisection.
    pub fn mean_blocks(&self) -> f64 {
        f64::from(self.blocks) / f64::from(self.all.max(1))
    }

    /// Lower bound on the average blocks of any method that is wrong in `error_rate` of its bisections (Fano 1952). It assumes known
    /// ends and the share of wrong answers seen here.
    pub fn bound(&self, steps: usize, error_rate: f64) -> f64 {
        let wrong = f64::from(self.wrong_answers) / f64::from(self.blocks.max(1));
        let capacity = 1.0 - entropy(wrong.min(0.5));
        let needed = (1.0 - error_rate) * (steps as f64).log2() - entropy(error_rate);
        needed.max(0.0) / capacity.max(f64::MIN_POSITIVE)
    }

    /// The sum of two tallies.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            wrong: self.wrong + other.wrong,
            undecided: self.undecided + other.undecided,
            blocks: self.blocks + other.blocks,
            wrong_answers: self.wrong_answers + other.wrong_answers,
        }
    }
}

/// Bisects once for each seed.
pub fn run(terms: Terms<'_>, seeds: Range<u64>) -> Tally {
    seeds.fold(Tally::default(), |tally, seed| {
        tally.and(bisection(terms, seed))
    })
}

/// Runs a plain bisection for each seed: `repeats` blocks for each candidate, and the majority decides.
pub fn run_plain(terms: Terms<'_>, repeats: u32, seeds: Range<u64>) -> Tally {
    seeds.fold(Tally::default(), |tally, seed| {
        tally.and(plain(terms, repeats, seed))
    })
}

/// A series of versions on a simulated machine, with a change at one of its steps.
struct SimulatedSeries<'t> {
    terms: Terms<'t>,
    /// Index of the first changed version.
    changed: usize,
    trials: Trials,
}

impl<'t> SimulatedSeries<'t> {
    fn new(terms: Terms<'t>, seed: u64) -> Self {
        let name = format!("step\n{}\n{}\n{seed}", terms.noise.name, terms.steps);
        // The candidate is a copy of the first version here; `block` adds its effect.
        Self {
            changed: 1 + keyed(&name).below(terms.steps as u64) as usize,
            trials: Trials::new(terms.noise, &[0.0, terms.effect], seed, 0),
            terms,
        }
    }

    fn block(&mut self, candidate: usize) -> BisectBlock {
        let slots: Vec<Slot> = self.trials.by_ref().take(3).collect();
        let place = |arm: usize| slots.iter().position(|slot| slot.arm == arm);
        let value = |arm: usize| {
            let slot = slots.iter().find(|slot| slot.arm == arm);
            slot.expect("each arm runs once in a block").value
        };
        let ratio = if self.is_changed(candidate) {
            1.0 + self.terms.effect
        } else {
            1.0
        };
        BisectBlock {
            candidate,
            from: value(0),
            value: value(1) * ratio,
            to: value(2),
            to_first: place(2) < place(0),
        }
    }

    fn is_changed(&self, candidate: usize) -> bool {
        candidate >= self.changed
    }

    /// Whether a block's candidate was nearer to the wrong end. The direction is the true one, not the measured one.
    fn is_wrong(&self, block: &BisectBlock) -> bool {
        let is_high = Answer::of(block).is_above().unwrap_or(false);
        is_high != (self.is_changed(block.candidate) == (self.terms.effect > 0.0))
    }
}

fn bisection(terms: Terms<'_>, seed: u64) -> Tally {
    let design = Design {
        seed,
        ..terms.design.clone()
    };
    let skipped = BTreeSet::new();
    let question = Question {
        versions: terms.steps + 1,
        design: &design,
        skipped: &skipped,
        first_cost: terms.first_cost,
    };
    let mut series = SimulatedSeries::new(terms, seed);
    let mut blocks = Vec::new();
    let (wrong, undecided) = loop {
        match evaluate(&question, &blocks).conclusion {
            Conclusion::Open { next } => blocks.push(series.block(next)),
            Conclusion::Found { after, .. } => break (after != series.changed, false),
            Conclusion::Equivalent => break (true, false),
            Conclusion::Undecided => break (false, true),
        }
    };
    Tally {
        all: 1,
        wrong: u32::from(wrong),
        undecided: u32::from(undecided),
        blocks: blocks.len() as u32,
        wrong_answers: blocks.iter().filter(|block| series.is_wrong(block)).count() as u32,
    }
}

fn plain(terms: Terms<'_>, repeats: u32, seed: u64) -> Tally {
    let mut series = SimulatedSeries::new(terms, seed);
    let mut tally = Tally {
        all: 1,
        ..Tally::default()
    };
    let (mut like_from, mut like_to) = (0, terms.steps);
    while like_to - like_from > 1 {
        let candidate = usize::midpoint(like_from, like_to);
        let mut wrong = 0;
        for _ in 0..repeats {
            let block = series.block(candidate);
            wrong += u32::from(series.is_wrong(&block));
        }
        tally.blocks += repeats;
        tally.wrong_answers += wrong;
        let is_right = 2 * wrong < repeats;
        if series.is_changed(candidate) == is_right {
            like_to = candidate;
        } else {
            like_from = candidate;
        }
    }
    tally.wrong = u32::from(like_to != series.changed);
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::noise_models::{COUNTED, QUIET, REFERENCE};

    const DESIGN: Design = Design {
        error_rate: 0.01,
        max_blocks: 400,
        seed: 0,
        ..Design::DEFAULTS
    };

    fn terms(noise: Noise, effect: f64, steps: usize) -> Terms<'static> {
        Terms {
            noise,
            effect,
            steps,
            design: &DESIGN,
            first_cost: 1.0,
        }
    }

    /// At an error rate of 1 %, two or more of 100 are wrong in one series of four, and five or more in one of 300.
    #[test]
    fn the_error_rate_holds() {
        for (noise, effect) in [(REFERENCE, 0.1), (QUIET, -0.03), (COUNTED, 0.02)] {
            for steps in [2, 8, 64] {
                let tally = run(terms(noise, effect, steps), 0..100);
                assert!(tally.wrong <= 4, "{}, {steps}: {tally:?}", noise.name);
                assert_eq!(tally.undecided, 0, "{}, {steps}", noise.name);
            }
        }
    }

    #[test]
    fn plain_bisection_is_wrong_more_often_on_the_same_machine() {
        let terms = terms(REFERENCE, 0.1, 64);
        let (noisy, plain) = (run(terms, 0..60), run_plain(terms, 1, 0..60));
        assert!(plain.wrong > 10 + noisy.wrong, "{plain:?} {noisy:?}");
    }

    #[test]
    fn the_bound_is_shannons() {
        let tally = |wrong_answers| Tally {
            all: 1,
            blocks: 100,
            wrong_answers,
            ..Tally::default()
        };
        assert!((tally(0).bound(4096, 0.0) - 12.0).abs() < 1e-9);
        // A channel with 11 % wrong bits carries half a bit.
        assert!((tally(11).bound(64, 0.0) - 12.0).abs() < 0.01);
    }
}
