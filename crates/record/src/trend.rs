//! Whether latencies rise with time: a least-squares line, stored as sums so that threads and hosts can be added up.

use serde::{Deserialize, Serialize};

const NS_PER_S: f64 = 1e9;

/// A sum of squared deviations below this share of the sum of squares is a rounding error.
const ROUNDING: f64 = 1e-12;

/// Sums over latencies and the scheduled send times of their requests, both in seconds; times count from the opening of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Successful requests.
    pub count: u64,
    /// Sum of the send times.
    pub at_s: f64,
    /// Sum of the squared send times.
    pub at_s2: f64,
    /// Sum of the latencies.
    pub latency_s: f64,
    /// Sum of the squared latencies.
    pub latency_s2: f64,
    /// Sum of the products of send time and latency.
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

    /// Adds the requests of another client.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.at_s += other.at_s;
        self.at_s2 += other.at_s2;
        self.latency_s += other.latency_s;
        self.latency_s2 += other.latency_s2;
        self.product_s2 += other.product_s2;
    }

    /// Whether it has no requests.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Rise of the latency in seconds per second, and its standard error; `None` with fewer than three requests, or if all were due at
    /// the same time.
    pub fn slope(&self) -> Option<(f64, f64)> {
        let count = self.count as f64;
        let at_spread = self.at_s2 - self.at_s * self.at_s / count;
        if self.count < 3 || at_spread <= ROUNDING * self.at_s2 {
            return None;
        }
        let latency_spread = self.latency_s2 - self.latency_s * self.latency_s / count;
        let product = self.product_s2 - self.at_s * self.latency_s / count;
        let slope = product / at_spread;
        // Only a rounding error can be below zero.
        let residual = f64::max(latency_spread - slope * product, 0.0);
        Some((slope, (residual / (count - 2.0) / at_spread).sqrt()))
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
    fn points_on_a_line_have_its_slope_and_no_error() {
        let (slope, error) = trend(&[(0, 100), (500, 150), (2000, 300)]).slope().unwrap();
        assert!((slope - 0.1).abs() < 1e-9, "{slope}");
        assert!(error < 1e-6, "{error}");
    }

    #[test]
    fn scatter_shows_in_the_standard_error() {
        // By hand: means 1.5 s and 0.25 s, squared deviations 5 and 0.09, product 0.6; the residual is 0.09 - 0.12 * 0.6.
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
    fn merged_clients_have_the_slope_of_all_their_requests() {
        let mut parts = trend(&[(0, 1), (10, 4)]);
        parts.merge(&trend(&[(20, 2), (30, 9)]));
        let whole = trend(&[(0, 1), (10, 4), (20, 2), (30, 9)]);
        let [(part, _), (all, _)] = [parts, whole].map(|trend| trend.slope().unwrap());
        assert!((part - all).abs() < 1e-12);
    }

    #[test]
    fn too_few_requests_have_no_slope() {
        assert_eq!(trend(&[(0, 1), (10, 4)]).slope(), None);
        assert_eq!(trend(&[(10, 1), (10, 4), (10, 5)]).slope(), None);
    }
}
