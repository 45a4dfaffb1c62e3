//! Whether latencies rise with time: a least-squares line, kept as sums so that threads and hosts
//! can be added up.

use serde::{Deserialize, Serialize};

const NS_PER_S: f64 = 1e9;

/// A spread that is a smaller share of its sum is rounding.
const ROUNDING: f64 = 1e-12;

/// Latencies over the instants that their requests were scheduled for, both in seconds, the latter
/// counted from the opening of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Successful requests.
    pub count: u64,
    /// Sum of the instants.
    pub at_s: f64,
    /// Sum of their squares.
    pub at_s2: f64,
    /// Sum of the latencies.
    pub latency_s: f64,
    /// Sum of their squares.
    pub latency_s2: f64,
    /// Sum of the products of both.
    pub product_s2: f64,
}

impl Trend {
    /// Adds a successful request.
    pub fn record(&mut self, at_ns: u64, latency_ns: u64) {
        let [x, y] = [at_ns, latency_ns].map(|ns| ns as f64 / NS_PER_S);
        self.merge(&Self {
            count: 1,
            at_s: x,
            at_s2: x * x,
            latency_s: y,
            latency_s2: y * y,
            product_s2: x * y,
        });
    }

    /// Adds those of another client.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.at_s += other.at_s;
        self.at_s2 += other.at_s2;
        self.latency_s += other.latency_s;
        self.latency_s2 += other.latency_s2;
        self.product_s2 += other.product_s2;
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// By how many seconds latencies rise in a second, and the standard error of that figure; `None`
    /// of fewer than three requests, and where all were due at one instant.
    pub fn slope(&self) -> Option<(f64, f64)> {
        let count = self.count as f64;
        let at_spread = self.at_s2 - self.at_s * self.at_s / count;
        if self.count < 3 || at_spread <= ROUNDING * self.at_s2 {
            return None;
        }
        let latency_spread = self.latency_s2 - self.latency_s * self.latency_s / count;
        let product = self.product_s2 - self.at_s * self.latency_s / count;
        let slope = product / at_spread;
        // Below zero for rounding alone.
        let rest = f64::max(latency_spread - slope * product, 0.0);
        Some((slope, (rest / (count - 2.0) / at_spread).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trend(points: &[(u64, u64)]) -> Trend {
        let mut trend = Trend::default();
        for (at_ms, latency_ms) in points {
            trend.record(at_ms * 1_000_000, latency_ms * 1_000_000);
        }
        trend
    }

    #[test]
    fn a_line_has_its_slope_and_no_error() {
        let (slope, error) = trend(&[(0, 100), (500, 150), (2000, 300)]).slope().unwrap();
        assert!((slope - 0.1).abs() < 1e-9, "{slope}");
        assert!(error < 1e-6, "{error}");
    }

    #[test]
    fn scatter_is_told_by_the_standard_error() {
        // By hand: means of 1.5 s and 0.25 s, spreads of 5 and 0.09, product 0.6: 0.09 - 0.12 * 0.6
        // is left.
        let (slope, error) = trend(&[(0, 0), (1000, 300), (2000, 300), (3000, 400)])
            .slope()
            .unwrap();
        assert!((slope - 0.12).abs() < 1e-9, "{slope}");
        assert!(
            (error - (0.018_f64 / 2.0 / 5.0).sqrt()).abs() < 1e-9,
            "{error}"
        );
    }

    #[test]
    fn clients_together_have_the_line_of_all_their_answers() {
        let mut parts = trend(&[(0, 1), (10, 4)]);
        parts.merge(&trend(&[(20, 2), (30, 9)]));
        let whole = trend(&[(0, 1), (10, 4), (20, 2), (30, 9)]);
        let [(part, _), (all, _)] = [parts, whole].map(|trend| trend.slope().unwrap());
        assert!((part - all).abs() < 1e-12);
    }

    #[test]
    fn too_few_answers_have_no_slope() {
        assert_eq!(trend(&[(0, 1), (10, 4)]).slope(), None);
        assert_eq!(trend(&[(10, 1), (10, 4), (10, 5)]).slope(), None);
    }
}
