//! Chance from a seed: the same seed, the same load.

use record::prng::SplitMix64;

/// A generator for arrivals and branches.
#[derive(Debug, Clone)]
pub(crate) struct Dice(SplitMix64);

impl Dice {
    /// Seeds that differ in one bit give unrelated sequences.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut prng = SplitMix64::new(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        prng.bits();
        Self(prng)
    }

    /// A number in (0, 1], all of them equally likely.
    pub(crate) fn share(&mut self) -> f64 {
        self.0.unit()
    }

    /// A number between two, all of them equally likely; `low` is not above `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + ((high - low) as f64 * self.share()) as u64
    }

    /// A whole number in `0..limit`; `limit` is small against 2^53.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // Not the generator's own: loads of a seed are the same as before there was one.
        self.0.bits() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_seed_differ() {
        let first = |stream| Dice::new(7, stream).0.bits();
        assert_ne!(first(0), first(1));
        assert_eq!(first(1), first(1));
    }
}
