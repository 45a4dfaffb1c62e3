//! Seeded random numbers: the same seed gives the same load.

use record::prng::SplitMix64;

/// A generator of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Prng(SplitMix64);

impl Prng {
    /// Seeds that differ in one bit give unrelated sequences.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut prng = SplitMix64::new(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        prng.bits();
        Self(prng)
    }

    /// The generator by which a thread chooses requests. It uses another half of all streams than
    /// arrivals do.
    pub(crate) fn for_mix(seed: u64, thread: u32) -> Self {
        Self::new(seed, (1 << 32) | u64::from(thread))
    }

    /// A uniformly distributed number in (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A uniformly distributed number between `low` and `high`; `low` must not be above `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + ((high - low) as f64 * self.unit()) as u64
    }

    /// A whole number in `0..limit`; `limit` must be small against 2^53.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // `SplitMix64` has such a method too, but with it seeds would give other loads than before.
        self.0.bits() % limit
    }
}

/// A random choice by weight.
#[derive(Debug, Clone)]
pub(crate) struct WeightedChoice {
    /// Cumulative weights.
    sums: Vec<u64>,
    prng: Prng,
}

impl WeightedChoice {
    /// At least one weight must be above 0.
    pub(crate) fn new<T>(weighted: &[(u32, T)], prng: Prng) -> Self {
        let mut sum = 0;
        let mut sums = Vec::new();
        for (weight, _) in weighted {
            sum += u64::from(*weight);
            sums.push(sum);
        }
        Self { sums, prng }
    }

    /// Draws the index of an item.
    pub(crate) fn draw(&mut self) -> usize {
        let total = self
            .sums
            .last()
            .expect("a mix is checked: it has an exchange");
        let drawn = self.prng.below(*total);
        self.sums.partition_point(|sum| *sum <= drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weighted_choice_keeps_its_weights() {
        let mut choice = WeightedChoice::new(&[(1, ()), (0, ()), (3, ())], Prng::new(1, 1));
        let mut seen = [0; 3];
        for _ in 0..40_000 {
            seen[choice.draw()] += 1;
        }
        assert_eq!(seen[1], 0, "{seen:?}");
        assert!((9_500..10_500).contains(&seen[0]), "{seen:?}");
    }

    #[test]
    fn streams_of_a_seed_differ() {
        let first = |stream| Prng::new(7, stream).0.bits();
        assert_ne!(first(0), first(1));
        assert_eq!(first(1), first(1));
    }
}
