//! Histograms of latencies that merge exactly and are serialized as text.

use std::borrow::Cow;
use std::fmt;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Highest latency: one hour. Anything longer counts as one hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Most latencies of one histogram: a million per second for eight years. Sums over many trials fit in 64 bits.
const COUNT_LIMIT: u64 = 1 << 48;

/// Longest uncompressed form of a histogram, in bytes: at three digits 33,792 counts of at most nine bytes.
const UNPACKED_LIMIT: u64 = 320 << 10;

/// Bytes before the counts: cookie, length, offset, digits, lowest, highest, ratio.
const HEADER_BYTES: usize = 40;

/// Cookie of the V2 form, and of its compressed form.
const V2: u32 = 0x1c84_9313;
const V2_COMPRESSED: u32 = 0x1c84_9314;

/// A histogram of nanoseconds with three significant digits (0.1 % relative error), or two if it is coarse.
///
/// It is serialized in the V2 compressed form of `HdrHistogram` logs, in base 64, which the usual viewers read.
///
/// A histogram that was read stays packed until a latency is recorded or merged. Unpacked ones take 270 kB, and a run of thousands of
/// trials has three per trial.
#[derive(Clone)]
pub struct Latency(Form);

#[derive(Clone)]
enum Form {
    /// Empty, with three digits.
    Empty,
    Unpacked(Histogram<u64>),
    Packed(Packed),
}

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
        Self(Form::Unpacked(empty(digits)))
    }

    fn unpacked(&self) -> Cow<'_, Histogram<u64>> {
        match &self.0 {
            Form::Empty => Cow::Owned(empty(3)),
            Form::Unpacked(histogram) => Cow::Borrowed(histogram),
            Form::Packed(packed) => Cow::Owned(packed.histogram()),
        }
    }

    fn unpacked_mut(&mut self) -> &mut Histogram<u64> {
        match &self.0 {
            Form::Empty => self.0 = Form::Unpacked(empty(3)),
            Form::Unpacked(_) => {}
            Form::Packed(packed) => self.0 = Form::Unpacked(packed.histogram()),
        }
        match &mut self.0 {
            Form::Unpacked(histogram) => histogram,
            Form::Empty | Form::Packed(_) => unreachable!("it was just unpacked"),
        }
    }

    /// Records one latency.
    pub fn record(&mut self, latency_ns: u64) {
        self.unpacked_mut().saturating_record(latency_ns);
    }

    /// Adds all of `other`. Histograms are merged; percentiles never are.
    pub fn merge(&mut self, other: &Self) {
        self.unpacked_mut()
            .add(&*other.unpacked())
            .expect("same bounds: no other histogram can be made or read");
    }

    /// Removes all latencies.
    pub fn clear(&mut self) {
        self.unpacked_mut().reset();
    }

    /// Packs it, which takes a hundredth of the memory.
    pub fn pack(&self) -> Packed {
        match &self.0 {
            Form::Empty => Packed::default(),
            Form::Unpacked(histogram) if histogram.is_empty() => Packed::default(),
            Form::Unpacked(_) => Packed(self.encode().into()),
            Form::Packed(packed) => packed.clone(),
        }
    }

    /// Number of latencies recorded.
    pub fn count(&self) -> u64 {
        self.unpacked().len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The latency in nanoseconds that a share of `quantile` (0 to 1) of all latencies does not exceed.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.unpacked().value_at_quantile(quantile)
    }

    /// Arithmetic mean in nanoseconds; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        self.unpacked().mean()
    }

    /// Largest latency in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.unpacked().max()
    }

    /// Points `(quantile, nanoseconds)` of the quantile curve, `ticks` per halving of the distance to 1.
    pub fn curve(&self, ticks: u32) -> Vec<(f64, u64)> {
        let histogram = self.unpacked();
        let points = histogram.iter_quantiles(ticks);
        points
            .map(|point| (point.quantile_iterated_to(), point.value_iterated_to()))
            .collect()
    }

    /// Recorded values in nanoseconds, ascending, with their counts.
    pub fn recorded(&self) -> Vec<(u64, u64)> {
        let histogram = self.unpacked();
        let values = histogram.iter_recorded();
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
        if let Form::Packed(packed) = &self.0
            && !packed.is_empty()
        {
            return packed.0.to_vec();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&*self.unpacked(), &mut bytes)
            .expect("a histogram within its bounds always fits a growing buffer");
        bytes
    }

    /// Decodes only what `encode` can write: histograms with these bounds, whose counts can be added up.
    ///
    /// The bytes may come from a malicious guest. The library allocates what the header asks for, and negates counts without a check, so
    /// both are checked first.
    fn decode(bytes: &[u8]) -> Result<Histogram<u64>, String> {
        let wrong = |what: String| format!("not an HdrHistogram of bakeoff: {what}");
        let unpacked = inflate(bytes).map_err(wrong)?;
        check_header(&unpacked).map_err(wrong)?;
        check_counts(&unpacked[HEADER_BYTES..]).map_err(wrong)?;
        let histogram = Deserializer::new().deserialize(&mut unpacked.as_slice());
        histogram.map_err(|why| wrong(why.to_string()))
    }
}

fn empty(digits: u8) -> Histogram<u64> {
    let histogram = Histogram::new_with_bounds(1, HIGHEST_NS, digits);
    histogram.expect("one nanosecond to one hour at few digits are valid bounds")
}

impl PartialEq for Latency {
    fn eq(&self, other: &Self) -> bool {
        self.unpacked() == other.unpacked()
    }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if word(bytes, 0) != Some(V2_COMPRESSED) {
        return Err("other than the compressed V2 form".into());
    }
    let packed = bytes.get(8..).unwrap_or_default();
    if word(bytes, 4).map(|length| length as usize) != Some(packed.len()) {
        return Err("torn".into());
    }
    let mut unpacked = Vec::new();
    ZlibDecoder::new(packed)
        .take(UNPACKED_LIMIT + 1)
        .read_to_end(&mut unpacked)
        .map_err(|why| why.to_string())?;
    if unpacked.len() as u64 > UNPACKED_LIMIT {
        return Err(format!("longer than {UNPACKED_LIMIT} bytes unpacked"));
    }
    Ok(unpacked)
}

fn check_header(unpacked: &[u8]) -> Result<(), String> {
    let word64 = |at: usize| unpacked.get(at..at + 8)?.try_into().ok();
    let length = unpacked.len().checked_sub(HEADER_BYTES).ok_or("torn")?;
    if word(unpacked, 0) != Some(V2) || word(unpacked, 4) != u32::try_from(length).ok() {
        return Err("torn".into());
    }
    let digits = word(unpacked, 12);
    let bounds = [16, 24].map(|at| word64(at).map(u64::from_be_bytes));
    if bounds != [Some(1), Some(HIGHEST_NS)] || !matches!(digits, Some(2 | 3)) {
        return Err("bounds other than one nanosecond to one hour at two or three digits".into());
    }
    Ok(())
}

/// Checks the counts: `ZigZag` LEB128 with seven bits per byte; a negative number is a run of zeros.
fn check_counts(bytes: &[u8]) -> Result<(), String> {
    let (mut total, mut at) = (0_u64, 0);
    while at < bytes.len() {
        let mut value = 0_u64;
        let mut shift = 0;
        loop {
            let byte = *bytes.get(at).ok_or("torn")?;
            at += 1;
            // The ninth byte has eight bits.
            let (bits, has_more) = if shift == 56 {
                (byte, false)
            } else {
                (byte & 0x7f, byte & 0x80 != 0)
            };
            value |= u64::from(bits) << shift;
            shift += 7;
            if !has_more {
                break;
            }
        }
        let count = value >> 1;
        let is_zeros = value & 1 == 1;
        if !is_zeros {
            total = total.saturating_add(count);
        }
        if total > COUNT_LIMIT || (is_zeros && count > UNPACKED_LIMIT) {
            return Err("counts beyond all measure".into());
        }
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A packed histogram: some hundred bytes, where an unpacked one takes tens of thousands. It has the same text form, except that an empty
/// one is an empty text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Packed(Box<[u8]>);

impl Packed {
    /// Whether it has no latencies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Unpacks it; an empty one becomes coarse.
    pub fn unpack(&self) -> Latency {
        if self.is_empty() {
            return Latency::coarse();
        }
        Latency(Form::Unpacked(self.histogram()))
    }

    fn histogram(&self) -> Histogram<u64> {
        Latency::decode(&self.0).expect("what is packed was a histogram")
    }

    /// Adds all of `other`, unless the sum exceeds the limit of a histogram.
    pub fn merge(&mut self, other: &Self) {
        *self = Self::sum([&*self, other]);
    }

    /// Sum of several histograms. Those that would exceed the limit are left out; only a malicious guest sends so many.
    pub fn sum<'p>(all: impl IntoIterator<Item = &'p Self>) -> Self {
        let mut all = all.into_iter().filter(|packed| !packed.is_empty());
        let (Some(first), second) = (all.next(), all.next()) else {
            return Self::default();
        };
        let Some(second) = second else {
            return first.clone();
        };
        let mut sum = first.unpack();
        for packed in [second].into_iter().chain(all) {
            let latency = packed.unpack();
            if sum.count() + latency.count() <= COUNT_LIMIT {
                sum.merge(&latency);
            }
        }
        sum.pack()
    }

    /// The text form of `HdrHistogram` logs: V2, compressed, in base 64.
    pub fn text(&self) -> String {
        STANDARD.encode(&self.0)
    }

    /// Length of that text.
    pub fn text_bytes(&self) -> usize {
        self.0.len().div_ceil(3) * 4
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

/// Many results lack some histograms, so an empty one takes no memory.
impl Default for Latency {
    fn default() -> Self {
        Self(Form::Empty)
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
        Ok(Self(Form::Packed(packed)))
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

    /// Text form of a histogram with other bounds than those of bakeoff.
    fn foreign(histogram: &Histogram<u64>) -> String {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
        written.unwrap();
        format!("\"{}\"", STANDARD.encode(bytes))
    }

    /// Text form of a V2 histogram with this header.
    fn forged(header: [u64; 4], counts: &[u8]) -> String {
        let [length, digits, low, high] = header;
        let mut bytes = Vec::new();
        for word in [u64::from(V2), length, 0, digits] {
            bytes.extend((word as u32).to_be_bytes());
        }
        bytes.extend([low, high].iter().flat_map(|bound| bound.to_be_bytes()));
        bytes.extend(1_f64.to_be_bytes());
        bytes.extend(counts);
        let mut packed = flate2::read::ZlibEncoder::new(&*bytes, flate2::Compression::fast());
        let mut body = Vec::new();
        packed.read_to_end(&mut body).unwrap();
        let mut all = V2_COMPRESSED.to_be_bytes().to_vec();
        all.extend((body.len() as u32).to_be_bytes());
        all.extend(body);
        format!("\"{}\"", STANDARD.encode(all))
    }

    fn refused(text: &str, why: &str) {
        for error in [
            serde_json::from_str::<Latency>(text).unwrap_err(),
            serde_json::from_str::<Packed>(text).unwrap_err(),
        ] {
            assert!(error.to_string().contains(why), "{error} is not {why}");
        }
    }

    #[test]
    fn a_histogram_of_other_bounds_is_refused() {
        for (low, high, digits) in [
            (1, HIGHEST_NS, 1),
            (1, 2 * HIGHEST_NS, 3),
            (2, HIGHEST_NS, 3),
        ] {
            let mut histogram = Histogram::new_with_bounds(low, high, digits).unwrap();
            histogram.record(high - 1).unwrap();
            refused(&foreign(&histogram), "bounds");
        }
    }

    #[test]
    fn a_forged_histogram_is_refused_before_memory_is_allocated() {
        let header = |length| [length, 3, 1, HIGHEST_NS];
        let most = [0xff; 9];
        assert!(serde_json::from_str::<Latency>(&forged(header(1), &[2])).is_ok());
        refused(&forged([1, 5, 1, u64::MAX], &[2]), "bounds");
        refused(&forged(header(u32::MAX.into()), &[2]), "torn");
        refused(&forged(header(1), &[0x80]), "torn");
        // The lowest number of 64 bits cannot be negated.
        refused(&forged(header(9), &most), "beyond all measure");
        let mut count = most;
        count[0] = 0xfe;
        refused(&forged(header(9), &count), "beyond all measure");
        refused(
            &forged(header(40_000), &vec![2; 40_000]),
            "longer than it should",
        );
    }

    #[test]
    fn a_decompression_bomb_is_refused() {
        let text = forged([64 << 20, 3, 1, HIGHEST_NS], &vec![0; 64 << 20]);
        assert!(text.len() < 1 << 19);
        refused(&text, "bytes unpacked");
    }

    #[test]
    fn histograms_with_the_highest_value_can_be_merged() {
        // A single latency in the last bucket, at two digits and at three.
        let last = |digits, count: u64| {
            let zeros = 2 * (count - 1) - 1;
            let bytes = [
                zeros as u8 | 0x80,
                (zeros >> 7) as u8 | 0x80,
                (zeros >> 14) as u8,
                2,
            ];
            let text = forged([4, digits, 1, HIGHEST_NS], &bytes);
            serde_json::from_str::<Latency>(&text).unwrap()
        };
        let (mut fine, mut coarse) = (last(3, 33 * 1024), last(2, 36 * 128));
        let (fine_before, coarse_before) = (fine.clone(), coarse.clone());
        fine.merge(&coarse_before);
        coarse.merge(&fine_before);
        assert_eq!((fine.count(), coarse.count()), (2, 2));
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
    fn a_coarse_histogram_is_off_by_at_most_one_percent() {
        let (mut coarse, mut fine) = (Latency::coarse(), Latency::new());
        (1..100_000).for_each(|value| coarse.record(value * 977));
        fine.merge(&coarse);
        let p50 = fine.quantile_ns(0.5) as f64 / (50_000.0 * 977.0);
        assert!((p50 - 1.0).abs() < 0.01, "{p50}");
        assert_eq!(fine.count(), coarse.count());
    }
}
