//! Limits for counts of simulated events, beyond which a test fails.

use statrs::distribution::{Binomial, DiscreteCDF as _};

/// Probability at which a test with new random numbers each night fails by chance, at most.
const CHANCE: f64 = 1e-4;

/// The largest plausible number of `all` cases that show an event of this probability.
pub fn most(all: u64, probability: f64) -> u64 {
    binomial(all, probability).inverse_cdf(1.0 - CHANCE)
}

/// The smallest plausible number of `all` cases that show an event of this probability.
pub fn least(all: u64, probability: f64) -> u64 {
    binomial(all, probability).inverse_cdf(CHANCE)
}

fn binomial(all: u64, probability: f64) -> Binomial {
    Binomial::new(probability, all).expect("a probability lies between 0 and 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_surround_the_expected_number() {
        assert_eq!((least(600, 0.05), most(600, 0.05)), (12, 52));
        assert_eq!((least(100, 0.0), most(100, 0.0)), (0, 0));
        assert_eq!(least(4, 1.0), 4);
    }
}
