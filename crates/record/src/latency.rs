//! Latencies as a histogram that merges exactly and travels as text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Highest latency told apart: one hour. Anything longer counts as one hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds with three significant digits (0.1 % relative error), or two where it is coarse.
///
/// Serialized in the V2 compressed form of `HdrHistogram` logs, in base 64, so that the usual viewers
/// read it.
#[derive(Clone, PartialEq)]
pub struct Latency(Histogram<u64>);

impl Latency {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::with_digits(3)
    }

    /// An empty histogram of two significant digits (1 % relative error), which takes an eighth of the memory.
    pub fn coarse() -> Self {
        Self::with_digits(2)
    }

    fn with_digits(digits: u8) -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, digits);
        Self(histogram.expect("one nanosecond to one hour at few digits are valid bounds"))
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
            .expect("same bounds: all histograms go up to one hour");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The same at rest, in a hundredth of the memory.
    pub fn pack(&self) -> Packed {
        if self.0.is_empty() {
            return Packed::default();
        }
        Packed(self.encode().into())
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

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("a histogram within its bounds always fits a growing buffer");
        bytes
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, String> {
        let histogram = Deserializer::new().deserialize(&mut bytes);
        Ok(Self(
            histogram.map_err(|why| format!("not an HdrHistogram: {why}"))?,
        ))
    }
}

/// A histogram at rest: some hundred bytes where one at work takes tens of thousands. Has the same text form; an
/// empty one is an empty text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Packed(Box<[u8]>);

impl Packed {
    /// Whether it holds no latency.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The histogram again; a coarse one where it is empty.
    pub fn unpack(&self) -> Latency {
        if self.is_empty() {
            return Latency::coarse();
        }
        Latency::decode(&self.0).expect("what is packed was a histogram")
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.is_empty() {
            *self = other.clone();
        } else if !other.is_empty() {
            let mut sum = self.unpack();
            sum.merge(&other.unpack());
            *self = sum.pack();
        }
    }

    /// As the logs of `HdrHistogram` have it: V2, compressed, in base 64.
    pub fn text(&self) -> String {
        STANDARD.encode(&self.0)
    }

    fn from_text(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let bytes = STANDARD
            .decode(text)
            .map_err(|why| format!("not base 64: {why}"))?;
        Latency::decode(&bytes)?;
        Ok(Self(bytes.into()))
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Packed({:?})", self.unpack())
    }
}

impl Serialize for Packed {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        Self::from_text(&text).map_err(serde::de::Error::custom)
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
        out.serialize_str(&STANDARD.encode(self.encode()))
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let packed = Packed::deserialize(input)?;
        if packed.is_empty() {
            return Err(serde::de::Error::custom("not an HdrHistogram: nothing"));
        }
        Ok(packed.unpack())
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
        for text in ["\"HISTFAAA\"", "\"HIST\"", "\"\""] {
            assert!(serde_json::from_str::<Latency>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Packed>("\"HISTFAAA\"").is_err());
    }

    #[test]
    fn a_packed_histogram_is_small_and_loses_nothing() {
        let mut latency = Latency::coarse();
        (1..100_000).for_each(|value| latency.record(value * 100));
        let packed = latency.pack();
        assert!(packed.0.len() < 2000, "{} bytes", packed.0.len());
        assert_eq!(packed.unpack(), latency);
        let text = serde_json::to_string(&packed).unwrap();
        assert_eq!(serde_json::from_str::<Packed>(&text).unwrap(), packed);
        let mut twice = Packed::default();
        twice.merge(&packed);
        twice.merge(&Packed::default());
        twice.merge(&packed);
        assert_eq!(twice.unpack().count(), 2 * latency.count());
        assert_eq!(serde_json::to_string(&Packed::default()).unwrap(), "\"\"");
    }

    #[test]
    fn a_coarse_histogram_is_off_by_a_hundredth_at_most() {
        let (mut coarse, mut fine) = (Latency::coarse(), Latency::new());
        (1..100_000).for_each(|value| coarse.record(value * 977));
        fine.merge(&coarse);
        let p50 = fine.quantile_ns(0.5) as f64 / (50_000.0 * 977.0);
        assert!((p50 - 1.0).abs() < 0.01, "{p50}");
        assert_eq!(fine.count(), coarse.count());
    }
}
