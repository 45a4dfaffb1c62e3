//! Chance from a seed: the same seed, the same load.

/// A `SplitMix64` generator (Steele, Lea and Flood, 2014): good enough for arrivals and branches, and eight bytes.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Seeds that differ in one bit give unrelated sequences.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in (0, 1], all of them equally likely.
    pub(crate) fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A number between two, all of them equally likely; `low` is not above `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + ((high - low) as f64 * self.share()) as u64
    }

    /// A whole number in `0..limit`; `limit` is small against 2^53.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_streams_differ() {
        let mut dice = Dice::new(7, 0);
        let mean = (0..100_000).map(|_| dice.share()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "mean is {mean}");
        assert_ne!(Dice::new(7, 0).next(), Dice::new(7, 1).next());
        assert_eq!(Dice::new(7, 1).next(), Dice::new(7, 1).next());
    }

    #[test]
    fn small_numbers_come_equally_often() {
        let mut dice = Dice::new(1, 2);
        let mut seen = [0; 5];
        (0..50_000).for_each(|_| seen[dice.below(5) as usize] += 1);
        assert!(
            seen.iter().all(|count| (9_500..10_500).contains(count)),
            "{seen:?}"
        );
    }
}
