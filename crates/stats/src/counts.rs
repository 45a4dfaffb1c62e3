//! How often a simulated event may happen before a test says that it happens too often, or too seldom.

use statrs::distribution::{Binomial, DiscreteCDF as _};

/// A test that draws other numbers each night fails by chance this often at the most.
const CHANCE: f64 = 1e-4;

/// The most of `all` cases that may show an event of this probability.
pub fn most(all: u64, probability: f64) -> u64 {
    binomial(all, probability).inverse_cdf(1.0 - CHANCE)
}

/// The fewest of `all` cases that may show an event of this probability.
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
    fn counts_lie_about_what_is_expected() {
        assert_eq!((least(600, 0.05), most(600, 0.05)), (12, 52));
        assert_eq!((least(100, 0.0), most(100, 0.0)), (0, 0));
        assert_eq!(least(4, 1.0), 4);
    }
}
