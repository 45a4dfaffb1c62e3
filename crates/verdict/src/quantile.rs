//! Quantiles: between which two of the sorted values a quantile lies.
//!
//! The number of values below the q-quantile is binomial(n, q), whatever the distribution (Thompson 1936; Conover,
//! "Practical nonparametric statistics"). For values that do not depend on each other: the requests of one trial do, so
//! there it is for showing only.

use statrs::distribution::{Binomial, DiscreteCDF};

/// Ranks, counted from 1, and the chance that the quantile lies between their values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranks {
    /// The lower one; 0 where no value is low enough.
    pub low: u64,
    /// The upper one; above `n` where no value is high enough.
    pub high: u64,
    /// At least what was asked for, where both ranks are values.
    pub coverage: f64,
}

/// The ranks of `n` values between which the `q`-quantile lies with at least the chance 1 - `error_rate`.
pub fn ranks(n: u64, q: f64, error_rate: f64) -> Ranks {
    let below = Binomial::new(q, n).expect("a quantile lies between 0 and 1");
    let low = below.inverse_cdf(error_rate / 2.0);
    let high = below.inverse_cdf(1.0 - error_rate / 2.0) + 1;
    let under = if low == 0 { 0.0 } else { below.cdf(low - 1) };
    Ranks {
        low,
        high,
        coverage: below.cdf(high - 1) - under,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::tests::close;

    #[test]
    fn ranks_are_those_of_the_reference() {
        let median = ranks(60, 0.5, 0.05);
        assert_eq!((median.low, median.high), (22, 39));
        close(median.coverage, 0.972_66, 5);
        let late = ranks(1000, 0.99, 0.05);
        assert_eq!((late.low, late.high), (983, 997));
        close(late.coverage, 0.976_095, 6);
    }

    #[test]
    fn few_values_do_not_reach_far_out() {
        assert!(ranks(20, 0.99, 0.05).high > 20);
        assert_eq!(ranks(3, 0.5, 0.05).low, 0);
    }
}
