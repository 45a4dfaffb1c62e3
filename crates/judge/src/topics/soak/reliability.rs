//! An upper bound on the probability of failure from a count of failures.

use record::verdict::soak::CONFIDENCE;
use statrs::function::beta::beta_reg;

/// Above this number of failures the bound is Wilson's, which differs from the exact one by less than its rounding.
const MANY: u64 = 1000;

/// The quantile of the standard normal distribution at `CONFIDENCE`.
const Z: f64 = 1.644_853_626_951_472_2;

/// The share of failures is below this with 95 % confidence, by Clopper and Pearson 1934; `None` if `all` is 0.
///
/// The bound assumes independent failures: a burst of failed requests counts as many events although it is one.
pub(crate) fn upper_bound(failures: u64, all: u64) -> Option<f64> {
    let (f, n) = (failures as f64, all as f64);
    if all == 0 {
        return None;
    }
    Some(match failures {
        // 1 - 0.05^(1/n): the rule of three.
        0 => -((1.0 - CONFIDENCE).ln() / n).exp_m1(),
        all_of_them if all <= all_of_them => 1.0,
        many if many > MANY => wilson(f / n, n),
        _ => {
            let (mut low, mut high) = (f / n, 1.0);
            for _ in 0..200 {
                let middle = if high > 4.0 * low {
                    f64::sqrt(low * high)
                } else {
                    f64::midpoint(low, high)
                };
                if beta_reg(f + 1.0, n - f, middle) < CONFIDENCE {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            high
        }
    })
}

fn wilson(share: f64, n: f64) -> f64 {
    let z2 = Z * Z;
    let middle = share + z2 / (2.0 * n);
    let reach = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle + reach) / (1.0 + z2 / n)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(failures: u64, all: u64, expected: f64) {
        let bound = upper_bound(failures, all).unwrap();
        assert!((bound / expected - 1.0).abs() < 1e-4, "{bound:e}");
    }

    #[test]
    fn normal_quantiles_are_those_of_the_level() {
        use statrs::distribution::{ContinuousCDF, Normal};
        let below = |share: f64| Normal::standard().inverse_cdf(share);
        assert!((Z - below(CONFIDENCE)).abs() < 1e-9);
        let two_sided = below(1.0 - (1.0 - CONFIDENCE) / 2.0);
        assert!((crate::topics::soak::find::Z - two_sided).abs() < 1e-9);
    }

    #[test]
    fn bounds_are_those_of_tables() {
        // 1 - 0.05^(1/10); qbeta(.95, 6, 95); qbeta(.95, 2, 9); qgamma(.95, 4) / 1e6, but for its fourth digit.
        check(0, 10, 0.258_866);
        check(5, 100, 0.102_253);
        check(1, 10, 0.394_163);
        check(3, 1_000_000, 7.753_6e-6);
        assert!((upper_bound(7, 7).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(upper_bound(0, 0), None);
    }

    #[test]
    fn no_failure_of_the_report_of_2004_is_less_than_one_in_ten_million() {
        check(0, 53_827_939, 5.565_3e-8);
    }

    #[test]
    fn many_failures_go_on_from_few() {
        let exact = upper_bound(MANY, 10_000_000).unwrap();
        let next = upper_bound(MANY + 1, 10_000_000).unwrap();
        assert!((next / exact - 1.001).abs() < 1e-3, "{exact} {next}");
    }
}
