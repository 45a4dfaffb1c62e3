//! Noise models: simulated machines with a known truth, to count how often a rule is right.
//!
//! ```text
//! ln value = effect of the arm + trend t + drift + sigma e_t + order effect, and occasionally a slow trial
//! e_t      = ar e_(t-1) + sqrt(1 - ar^2) * normal (or Student's t with 3 degrees of freedom)
//! drift    = a random walk that both arms share
//! slow     = 10 to 40 % of the value lost, alone or several trials in a row
//! ```
//! The reference was measured on shared machines: 3 % from trial to trial, every twentieth trial slow,
//! a drift of 1 % a trial; paired log-ratios then have a scale of 4.8 %. The other ten exaggerate what real machines
//! do. The same seed gives the same values.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

use record::prng::SplitMix64;
use record::verdict::Pair;

use crate::design::keyed;
use crate::score::scale;

/// Smallest and largest depth of a slow trial, as shares of its value.
const SLOW_DEPTH: (f64, f64) = (0.1, 0.4);

/// What a machine does to its trials; shares unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Name on the command line.
    pub word: &'static str,
    /// Name in tables.
    pub name: &'static str,
    /// Deviation of a trial of baseline and arm, on the logarithm.
    pub sigma: [f64; 2],
    /// Distribution of the deviations.
    pub tails: Tails,
    /// Correlation of neighbouring trials, -1 to 1.
    pub memory: f64,
    /// Share of slow trials.
    pub slow: f64,
    /// Slow trials in a row, a count.
    pub burst: u32,
    /// Deviation of a step of the random walk, per trial.
    pub drift: f64,
    /// Change per trial.
    pub trend: f64,
    /// Effect of not running first in a block.
    pub second: f64,
}

/// The shape of a trial's deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tails {
    /// Normal.
    Normal,
    /// Student's t with three degrees of freedom, whose variance is three times that of its centre.
    Heavy,
}

/// Shared machines, as measured.
pub const REFERENCE: Noise = Noise {
    word: "reference",
    name: "reference",
    sigma: [0.03; 2],
    tails: Tails::Normal,
    memory: 0.0,
    slow: 0.05,
    burst: 1,
    drift: 0.01,
    trend: 0.0,
    second: 0.0,
};

/// A dedicated machine: 1 % from trial to trial.
pub const QUIET: Noise = Noise {
    word: "quiet",
    name: "quiet box",
    sigma: [0.01; 2],
    drift: 0.005,
    ..REFERENCE
};

/// An emulated guest whose clock counts instructions: boots of one kernel agree within 0.4 to 0.8 %.
pub const COUNTED: Noise = Noise {
    word: "counted",
    name: "counted instructions",
    sigma: [0.002; 2],
    slow: 0.0,
    drift: 0.0,
    ..REFERENCE
};

/// Ten machines that are worse than the reference, each in a different way.
#[rustfmt::skip]
pub const MODELS: [Noise; 10] = [
    Noise { word: "slow", name: "every fifth trial slow", slow: 0.2, ..REFERENCE },
    Noise { word: "bursts", name: "six slow trials in a row", burst: 6, ..REFERENCE },
    Noise { word: "memory", name: "neighbours correlated by 0.8", memory: 0.8, ..REFERENCE },
    Noise { word: "trend", name: "each trial 0.5 % slower", trend: -0.005, ..REFERENCE },
    Noise { word: "walk", name: "random walk of 5 % a trial", drift: 0.05, ..REFERENCE },
    Noise { word: "loud", name: "10 % from trial to trial", sigma: [0.1; 2], ..REFERENCE },
    Noise { word: "tails", name: "heavy tails", tails: Tails::Heavy, ..REFERENCE },
    Noise { word: "second", name: "second trial 5 % slower", second: -0.05, ..REFERENCE },
    Noise { word: "uneven", name: "arms of unequal spread", sigma: [0.02, 0.06], slow: 0.0, drift: 0.0, ..REFERENCE },
    Noise { word: "drift", name: "drift alone", sigma: [0.001; 2], slow: 0.0, ..REFERENCE },
];

/// All machines that have a name on the command line.
pub fn named() -> impl Iterator<Item = Noise> {
    [REFERENCE, QUIET, COUNTED].into_iter().chain(MODELS)
}

impl Noise {
    /// The machine of an earlier run, from the scale of its contrasts, its order effect and its share of outliers.
    pub fn as_measured(scale: f64, order_effect: f64, outliers: f64) -> Self {
        Self {
            word: "measured",
            name: "as measured",
            // A contrast is the difference of two trials.
            sigma: [scale * FRAC_1_SQRT_2; 2],
            slow: outliers,
            drift: 0.0,
            second: order_effect.ln_1p(),
            ..REFERENCE
        }
    }

    /// The scale of a block's log-ratio without the order effect.
    pub fn scale(self) -> f64 {
        const BLOCKS: u32 = 4000;
        let without_order = Self {
            second: 0.0,
            ..self
        };
        let pairs = pairs(without_order, 0.0, BLOCKS, 1, 0);
        let contrasts = pairs.iter().map(|pair| (pair.arm / pair.baseline).ln());
        scale(&contrasts.collect::<Vec<f64>>())
    }
}

/// One trial, in the order of execution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// Block number, from 1.
    pub block: u32,
    /// Index of the arm; 0 is the baseline.
    pub arm: usize,
    /// The measured value, about 100; more is better.
    pub value: f64,
}

/// An endless series of trials, one of each arm per block, in random order.
#[derive(Debug)]
pub struct Trials {
    noise: Noise,
    /// Effects of the arms beside the baseline, on the logarithm.
    effects: Vec<f64>,
    order_prng: SplitMix64,
    noise_prng: SplitMix64,
    /// Number of trials so far.
    ran: u32,
    /// Arms still to run in this block, the next one last.
    left: Vec<usize>,
    drift: f64,
    last: f64,
    slow_left: u32,
}

impl Trials {
    /// Trials of arms that are better than the baseline by the shares `effects`, above -1. Streams of one seed have
    /// the same order and independent noise, like the metrics of one run.
    pub fn new(noise: Noise, effects: &[f64], seed: u64, stream: u32) -> Self {
        let mut noise_prng = keyed(&format!("noise\n{}\n{seed}\n{stream}", noise.name));
        Self {
            last: deviation(&mut noise_prng, noise.tails),
            noise,
            effects: effects.iter().map(|effect| effect.ln_1p()).collect(),
            order_prng: keyed(&format!("coins\n{}\n{seed}", noise.name)),
            noise_prng,
            ran: 0,
            left: Vec::new(),
            drift: 0.0,
            slow_left: 0,
        }
    }

    /// Draws a block's order and returns its first arm.
    fn draw_block(&mut self) -> usize {
        self.left = (0..=self.effects.len()).collect();
        self.order_prng.shuffle(&mut self.left);
        self.left.pop().expect("there is a baseline")
    }

    /// Disturbance of the next trial, on the logarithm.
    fn disturb(&mut self, is_arm: bool) -> f64 {
        let Noise { memory, drift, .. } = self.noise;
        let innovation = deviation(&mut self.noise_prng, self.noise.tails);
        self.last = memory * self.last + (1.0 - memory * memory).sqrt() * innovation;
        self.drift += drift * deviation(&mut self.noise_prng, Tails::Normal);
        if uniform(&mut self.noise_prng) < self.noise.slow / f64::from(self.noise.burst) {
            self.slow_left = self.noise.burst;
        }
        let depth = SLOW_DEPTH.0 + (SLOW_DEPTH.1 - SLOW_DEPTH.0) * uniform(&mut self.noise_prng);
        let slow = if self.slow_left > 0 {
            (-depth).ln_1p()
        } else {
            0.0
        };
        self.slow_left = self.slow_left.saturating_sub(1);
        let trend = self.noise.trend * f64::from(self.ran);
        self.noise.sigma[usize::from(is_arm)] * self.last + self.drift + trend + slow
    }
}

impl Iterator for Trials {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        let arms = self.effects.len() + 1;
        let is_first = self.left.is_empty();
        let arm = match self.left.pop() {
            Some(arm) => arm,
            None => self.draw_block(),
        };
        let mut value = self.disturb(arm > 0);
        if arm > 0 {
            value += self.effects[arm - 1];
        }
        if !is_first {
            value += self.noise.second;
        }
        let block = self.ran / arms as u32 + 1;
        self.ran += 1;
        let value = 100.0 * value.exp();
        Some(Slot { block, arm, value })
    }
}

/// The first `blocks` blocks of one arm, paired with the baseline.
pub fn pairs(noise: Noise, effect: f64, blocks: u32, seed: u64, stream: u32) -> Vec<Pair> {
    sides(noise, &[effect], blocks, seed, stream).remove(0)
}

/// The first `blocks` blocks of each arm, paired with the shared baseline.
pub fn sides(noise: Noise, effects: &[f64], blocks: u32, seed: u64, stream: u32) -> Vec<Vec<Pair>> {
    let arms = effects.len() + 1;
    let trials: Vec<Slot> = Trials::new(noise, effects, seed, stream)
        .take(arms * blocks as usize)
        .collect();
    let place = |slots: &[Slot], arm: usize| {
        let place = slots.iter().position(|slot| slot.arm == arm);
        place.expect("each arm runs once in a block")
    };
    let pair = |slots: &[Slot], arm: usize| {
        let (base, other) = (place(slots, 0), place(slots, arm));
        Pair {
            block: slots[0].block,
            baseline: slots[base].value,
            arm: slots[other].value,
            arm_first: other < base,
        }
    };
    let side = |arm| {
        trials
            .chunks_exact(arms)
            .map(|slots| pair(slots, arm))
            .collect()
    };
    (1..arms).map(side).collect()
}

/// A uniform number between 0 and 1, both excluded: 53 bits.
fn uniform(prng: &mut SplitMix64) -> f64 {
    ((prng.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn deviation(prng: &mut SplitMix64, tails: Tails) -> f64 {
    match tails {
        Tails::Normal => normal(prng),
        Tails::Heavy => {
            let squares: f64 = (0..3).map(|_| normal(prng).powi(2)).sum();
            normal(prng) / (squares / 3.0).sqrt()
        }
    }
}

/// Box and Muller, "A note on the generation of random normal deviates", 1958.
fn normal(prng: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * uniform(prng).ln()).sqrt();
    radius * (TAU * uniform(prng)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::average::median;

    fn contrasts(noise: Noise, effect: f64) -> Vec<f64> {
        let pairs = pairs(noise, effect, 20_000, 1, 0);
        pairs
            .iter()
            .map(|pair| (pair.arm / pair.baseline).ln())
            .collect()
    }

    #[test]
    fn the_reference_has_the_scale_that_was_measured() {
        let scale = scale(&contrasts(REFERENCE, 0.0));
        assert!((0.047..0.051).contains(&scale), "{scale}");
        let quiet = QUIET.scale();
        assert!((0.013..0.018).contains(&quiet), "{quiet}");
    }

    #[test]
    fn the_injected_effect_is_there_in_every_model() {
        for noise in MODELS {
            let measured = median(&contrasts(noise, -0.05));
            let tolerance = 5.0 * scale(&contrasts(noise, 0.0)) / 20_000f64.sqrt();
            assert!(
                (measured - 0.95f64.ln()).abs() < tolerance + 1e-4,
                "{}: {measured}",
                noise.name
            );
        }
    }

    #[test]
    fn models_do_what_they_are_named_for() {
        let slow = |noise: Noise| {
            let noise = Noise {
                sigma: [1e-6; 2],
                drift: 0.0,
                ..noise
            };
            let slots = Trials::new(noise, &[0.0], 1, 0).take(40_000);
            let slow: Vec<bool> = slots.map(|slot| slot.value < 95.0).collect();
            let in_row = slow.windows(2).filter(|pair| pair[0] && pair[1]).count();
            let all = slow.iter().filter(|slow| **slow).count();
            (all as f64 / 40_000.0, in_row as f64 / all as f64)
        };
        let (share, in_row) = slow(REFERENCE);
        assert!(
            (0.045..0.055).contains(&share) && in_row < 0.1,
            "{share} {in_row}"
        );
        let (share, in_row) = slow(MODELS[1]);
        assert!(
            (0.04..0.06).contains(&share) && in_row > 0.75,
            "{share} {in_row}"
        );
        let second = Noise {
            sigma: [1e-6; 2],
            drift: 0.0,
            slow: 0.0,
            ..MODELS[7]
        };
        let pair = &pairs(second, 0.0, 1, 1, 0)[0];
        let ratio = if pair.arm_first {
            pair.baseline / pair.arm
        } else {
            pair.arm / pair.baseline
        };
        assert!((ratio.ln() + 0.05).abs() < 1e-4, "{ratio}");
    }

    #[test]
    fn arms_share_their_baseline_and_have_effects_of_their_own() {
        let noise = Noise {
            sigma: [1e-6; 2],
            drift: 0.0,
            slow: 0.0,
            ..REFERENCE
        };
        let sides = sides(noise, &[0.1, -0.1], 300, 1, 0);
        for (side, effect) in sides.iter().zip([0.1f64, -0.1]) {
            let off = |pair: &Pair| ((pair.arm / pair.baseline).ln() - effect.ln_1p()).abs();
            assert!(side.iter().all(|pair| off(pair) < 1e-4));
            let firsts = side.iter().filter(|pair| pair.arm_first).count();
            assert!((115..=185).contains(&firsts), "{firsts}");
        }
        let mut both = sides[0].iter().zip(&sides[1]);
        assert!(both.all(|(pair, other)| pair.baseline.to_bits() == other.baseline.to_bits()));
    }

    #[test]
    fn a_machine_as_measured_has_the_noise_that_was_measured() {
        let scale = Noise::as_measured(0.02, -0.03, 0.0).scale();
        assert!((0.019..0.021).contains(&scale), "{scale}");
    }

    #[test]
    fn streams_share_their_order_and_nothing_else() {
        let (first, second) = (
            pairs(REFERENCE, 0.0, 50, 3, 0),
            pairs(REFERENCE, 0.0, 50, 3, 1),
        );
        assert!(
            first
                .iter()
                .zip(&second)
                .all(|(first, second)| first.arm_first == second.arm_first)
        );
        assert!(
            first
                .iter()
                .zip(&second)
                .all(|(first, second)| first.arm.to_bits() != second.arm.to_bits())
        );
        assert_eq!(first, pairs(REFERENCE, 0.0, 50, 3, 0));
        let firsts = first.iter().filter(|pair| pair.arm_first).count();
        assert!((15..=35).contains(&firsts), "{firsts}");
    }
}
