//! Random numbers from a seed: `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
//!
//! It is implemented here because orders of trials, data of workloads and loads must stay the same in later versions, and crates may change
//! what a seed or a shuffle yields. It is not cryptographically secure: each number reveals all that follow.

/// A generator; its state is its seed.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator with a seed. Neighbouring seeds give unrelated sequences from the second number on.
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

    /// A number below `end`, uniform up to a bias of less than `end` in 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below zero");
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A uniform number in (0, 1].
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

/// FNV-1a, to turn a text into a seed. Use SHA-256 if the seeds of similar texts must be unrelated.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut prng = SplitMix64::new(1_234_567);
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([(); 3].map(|()| prng.bits()), published);
    }

    #[test]
    fn numbers_are_uniform() {
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
