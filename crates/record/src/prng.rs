//! Chance from a seed: `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
//!
//! A few lines of our own rather than a crate, because orders of trials, data of workloads and loads are the same in every
//! later version, and crates reserve the right to change what a seed or a shuffle yields. Good enough for all of these,
//! and no secret: who knows a number knows all that follow.

/// A generator; its state is its seed.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of a seed. Seeds that are near each other give unrelated sequences from the second number on.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; uneven by less than `end` in 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below zero");
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number in (0, 1], all of them equally likely.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Puts items into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// FNV-1a: spreads a text over 64 bits, so that it can be a seed. Where the seeds of near texts must be unrelated, take a
/// SHA-256.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence_is_yielded() {
        let mut prng = SplitMix64::new(1_234_567);
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([(); 3].map(|()| prng.bits()), published);
    }

    #[test]
    fn numbers_are_even() {
        let mut prng = SplitMix64::new(7);
        let mean = (0..100_000).map(|_| prng.unit()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "mean is {mean}");
        let mut seen = [0; 5];
        (0..50_000).for_each(|_| seen[prng.below(5) as usize] += 1);
        assert!(
            seen.iter().all(|count| (9_500..10_500).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn a_shuffle_loses_nothing() {
        let mut items: Vec<u32> = (0..100).collect();
        SplitMix64::new(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
