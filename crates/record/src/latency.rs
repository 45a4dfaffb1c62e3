//! Latencies as a histogram that merges exactly and travels as text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Highest latency told apart: one hour. Anything longer counts as one hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds with three significant digits (0.1 % relative error).
///
/// Serialized in the V2 compressed form of `HdrHistogram` logs, in base 64, so that the usual viewers
/// read it.
#[derive(Clone, PartialEq)]
pub struct Latency(Histogram<u64>);

impl Latency {
    /// An empty histogram.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, 3);
        Self(histogram.expect("one nanosecond to one hour at three digits are valid bounds"))
    }

    /// Takes over a histogram that a client thread recorded.
    pub fn from_histogram(histogram: Histogram<u64>) -> Self {
        Self(histogram)
    }

    /// Records one latency.
    pub fn record(&mut self, latency_ns: u64) {
        self.0.saturating_record(latency_ns);
    }

    /// Adds all of `other`. Histograms are merged; percentiles never are.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .add(&other.0)
            .expect("same bounds: both come from Latency::new");
    }

    /// Number of latencies recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that a share of `quantile` (0 to 1) of all stay at or below, in nanoseconds.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// Arithmetic mean in nanoseconds; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// Largest latency in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// Points of the quantile curve `(quantile, nanoseconds)`, `ticks` per halving of the distance to 1.
    pub fn curve(&self, ticks: u32) -> Vec<(f64, u64)> {
        let points = self.0.iter_quantiles(ticks);
        points
            .map(|point| (point.quantile_iterated_to(), point.value_iterated_to()))
            .collect()
    }

    /// All values in nanoseconds that occurred, rising, each with how often it did.
    pub fn recorded(&self) -> Vec<(u64, u64)> {
        let values = self.0.iter_recorded();
        values
            .map(|value| {
                (
                    value.value_iterated_to(),
                    value.count_since_last_iteration(),
                )
            })
            .collect()
    }

    fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("a histogram within its bounds always fits a growing buffer");
        STANDARD.encode(&bytes)
    }

    fn decode(text: &str) -> Result<Self, String> {
        let bytes = STANDARD
            .decode(text)
            .map_err(|why| format!("not base 64: {why}"))?;
        let histogram = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|why| format!("not an HdrHistogram: {why}"))?;
        Ok(Self(histogram))
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "Latency({} values, max {} ns)",
            self.count(),
            self.max_ns()
        )
    }
}

impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.encode())
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        Self::decode(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_its_text_form() {
        let mut latency = Latency::new();
        for value in [1_000, 2_000, 5_000_000, 30_000_000_000] {
            latency.record(value);
        }
        let text = serde_json::to_string(&latency).unwrap();
        let back: Latency = serde_json::from_str(&text).unwrap();
        assert_eq!(back, latency);
        assert_eq!(back.count(), 4);
    }

    #[test]
    fn merging_keeps_every_value() {
        let (mut all, mut half) = (Latency::new(), Latency::new());
        (1..=500).for_each(|value| all.record(value * 1000));
        (501..=1000).for_each(|value| half.record(value * 1000));
        all.merge(&half);
        assert_eq!(all.count(), 1000);
        let p90 = all.quantile_ns(0.9) as f64;
        assert!((p90 / 900_000.0 - 1.0).abs() < 0.001, "p90 is {p90}");
    }

    #[test]
    fn every_recorded_value_is_listed_once() {
        let mut latency = Latency::new();
        for value in [700, 300, 700] {
            latency.record(value);
        }
        assert_eq!(latency.recorded(), [(300, 1), (700, 2)]);
    }

    #[test]
    fn a_torn_histogram_is_refused() {
        let torn = serde_json::from_str::<Latency>("\"HISTFAAA\"");
        assert!(torn.is_err());
    }
}
