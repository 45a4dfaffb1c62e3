//! How often a bisection is right where the truth is known, and what that takes.
//!
//! Beside it, on the same machines: plain bisection that asks each version a fixed number of times and takes the majority, and what no
//! method can do without (Shannon's bound for a channel that is wrong as often as these answers were).

use std::collections::BTreeSet;
use std::ops::Range;

use plan::Design;
use record::bisect::{BisectBlock, Conclusion};

use super::{Question, look};
use stats::design::keyed;
use stats::noise_models::{Noise, Slot, Trials};
use stats::posterior::{Answer, entropy};

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'t> {
    /// The machine.
    pub noise: Noise,
    /// By what share the versions after the step are better.
    pub effect: f64,
    /// Steps that may be the one.
    pub steps: usize,
    /// Margin, error rate and blocks; each simulation has a seed of its own.
    pub design: &'t Design,
    /// As `Question::first_cost`.
    pub first_cost: f64,
}

/// What came of some bisections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bisections.
    pub all: u32,
    /// That named another step, or said that the ends are equivalent.
    pub wrong: u32,
    /// That ended without an answer.
    pub undecided: u32,
    /// Blocks of all bisections.
    pub blocks: u32,
    /// Blocks whose candidate was nearer to the wrong end.
    pub wrong_answers: u32,
}

impl Tally {
    /// Blocks of a bisection on average.
    pub fn mean_blocks(&self) -> f64 {
        f64::from(self.blocks) / f64::from(self.all.max(1))
    }

    /// Blocks that any method needs on average that is right in all but `error_rate` of its bisections (Fano 1952), where the ends are
    /// known and so many of these answers are wrong.
    pub fn bound(&self, steps: usize, error_rate: f64) -> f64 {
        let wrong = f64::from(self.wrong_answers) / f64::from(self.blocks.max(1));
        let capacity = 1.0 - entropy(wrong.min(0.5));
        let needed = (1.0 - error_rate) * (steps as f64).log2() - entropy(error_rate);
        needed.max(0.0) / capacity.max(f64::MIN_POSITIVE)
    }

    /// This and another one together.
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

/// Bisects plainly once for each seed: `repeats` blocks for each version that is asked, and the majority decides.
pub fn run_plain(terms: Terms<'_>, repeats: u32, seeds: Range<u64>) -> Tally {
    seeds.fold(Tally::default(), |tally, seed| {
        tally.and(plain(terms, repeats, seed))
    })
}

/// A line of versions on a machine, one of whose steps matters.
struct Line<'t> {
    terms: Terms<'t>,
    /// Versions from this place on are better.
    changed: usize,
    trials: Trials,
}

impl<'t> Line<'t> {
    fn new(terms: Terms<'t>, seed: u64) -> Self {
        let name = format!("step\n{}\n{}\n{seed}", terms.noise.name, terms.steps);
        // The candidate's own effect is put on what it would measure as a copy of the first version.
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
        let own = if self.is_changed(candidate) {
            1.0 + self.terms.effect
        } else {
            1.0
        };
        BisectBlock {
            candidate,
            from: value(0),
            value: value(1) * own,
            to: value(2),
            to_first: place(2) < place(0),
        }
    }

    fn is_changed(&self, candidate: usize) -> bool {
        candidate >= self.changed
    }

    /// Whether a block's candidate was nearer to the wrong end, whichever way the ends seem to differ.
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
    let mut line = Line::new(terms, seed);
    let mut blocks = Vec::new();
    let (wrong, undecided) = loop {
        match look(&question, &blocks).conclusion {
            Conclusion::Open { next } => blocks.push(line.block(next)),
            Conclusion::Found { after, .. } => break (after != line.changed, false),
            Conclusion::Equivalent => break (true, false),
            Conclusion::Undecided => break (false, true),
        }
    };
    Tally {
        all: 1,
        wrong: u32::from(wrong),
        undecided: u32::from(undecided),
        blocks: blocks.len() as u32,
        wrong_answers: blocks.iter().filter(|block| line.is_wrong(block)).count() as u32,
    }
}

fn plain(terms: Terms<'_>, repeats: u32, seed: u64) -> Tally {
    let mut line = Line::new(terms, seed);
    let mut tally = Tally {
        all: 1,
        ..Tally::default()
    };
    let (mut like_from, mut like_to) = (0, terms.steps);
    while like_to - like_from > 1 {
        let candidate = usize::midpoint(like_from, like_to);
        let mut wrong = 0;
        for _ in 0..repeats {
            let block = line.block(candidate);
            wrong += u32::from(line.is_wrong(&block));
        }
        tally.blocks += repeats;
        tally.wrong_answers += wrong;
        let is_right = 2 * wrong < repeats;
        if line.is_changed(candidate) == is_right {
            like_to = candidate;
        } else {
            like_from = candidate;
        }
    }
    tally.wrong = u32::from(like_to != line.changed);
    tally
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::noise_models::{COUNTED, QUIET, REFERENCE};

    const DESIGN: Design = Design {
        margin: 0.01,
        error_rate: 0.01,
        min_blocks: 4,
        max_blocks: 400,
        more_blocks: 0,
        seed: 0,
        arms: 0,
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

    /// At 1 % two of 100 are wrong in one series of four; five in one of 300.
    #[test]
    fn the_step_is_found_as_often_as_promised() {
        for (noise, effect) in [(REFERENCE, 0.1), (QUIET, -0.03), (COUNTED, 0.02)] {
            for steps in [2, 8, 64] {
                let tally = run(terms(noise, effect, steps), 0..100);
                assert!(tally.wrong <= 4, "{}, {steps}: {tally:?}", noise.name);
                assert_eq!(tally.undecided, 0, "{}, {steps}", noise.name);
            }
        }
    }

    #[test]
    fn plain_bisection_goes_astray_on_the_same_machine() {
        let terms = terms(REFERENCE, 0.1, 64);
        let (ours, plain) = (run(terms, 0..60), run_plain(terms, 1, 0..60));
        assert!(plain.wrong > 10 + ours.wrong, "{plain:?} {ours:?}");
    }

    #[test]
    fn the_bound_is_that_of_shannon() {
        let tally = |wrong_answers| Tally {
            all: 1,
            blocks: 100,
            wrong_answers,
            ..Tally::default()
        };
        assert!((tally(0).bound(4096, 0.0) - 12.0).abs() < 1e-9);
        // A channel that is wrong in 11 of 100 carries half a bit.
        assert!((tally(11).bound(64, 0.0) - 12.0).abs() < 0.01);
    }
}
