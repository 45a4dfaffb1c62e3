//! Reads options that workloads share.

use std::ops::RangeInclusive;
use std::time::Duration;

use base::input::units;
use load::schedule::{Arrivals, Schedule, THREAD_RATE_PER_S, Think};
use load::url;
use plan::fields::Fields;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use crate::Timing;

/// Range of deadlines; latencies above an hour are recorded as an hour.
const DEADLINES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// A required whole number; `example` is for the remedy.
pub(crate) fn required_count(
    fields: &Fields<'_>,
    key: &str,
    limits: RangeInclusive<u64>,
    example: &str,
) -> Option<u64> {
    if !fields.has(key) {
        fields.missing(key, example);
    }
    fields.count(key, limits)
}

/// An optional whole number.
pub(crate) fn count(
    fields: &Fields<'_>,
    key: &str,
    limits: RangeInclusive<u64>,
    default: u64,
) -> Option<u64> {
    if fields.takes(key) {
        fields.count(key, limits)
    } else {
        Some(default)
    }
}

/// Highest rate of a plan, in requests per second: that of a client thread.
pub(crate) const RATE: u64 = THREAD_RATE_PER_S as u64;

/// The optional rate of an open loop, in requests per second.
pub(crate) fn rate(fields: &Fields<'_>) -> Option<u32> {
    fields.count("rate", 1..=RATE).map(|rate| rate as u32)
}

/// An open loop with random arrivals at a rate, or else a closed loop without think time.
pub(crate) fn schedule(rate_per_s: Option<u32>) -> Schedule {
    match rate_per_s {
        Some(rate) => Schedule::Open {
            rate_per_s: rate.into(),
            arrivals: Arrivals::Poisson,
        },
        None => Schedule::Closed { think: Think::NONE },
    }
}

/// An optional flag.
pub(crate) fn flag(fields: &Fields<'_>, key: &str, default: bool) -> Option<bool> {
    if fields.takes(key) {
        fields.flag(key)
    } else {
        Some(default)
    }
}

/// An optional duration.
pub(crate) fn time(fields: &Fields<'_>, key: &str, default: Duration) -> Option<Duration> {
    if fields.takes(key) {
        fields.read(key, units::duration)
    } else {
        Some(default)
    }
}

/// Range of think times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rest {
    least_ns: u64,
    most_ns: u64,
}

impl Rest {
    /// Reads the optional `think`.
    pub(crate) fn read(fields: &Fields<'_>) -> Option<Self> {
        let (least, most) = if fields.takes("think") {
            fields.read("think", units::durations)?
        } else {
            (Duration::ZERO, Duration::ZERO)
        };
        Some(Self {
            least_ns: least.as_nanos() as u64,
            most_ns: most.as_nanos() as u64,
        })
    }

    pub(crate) fn think(self) -> Think {
        Think {
            least: Duration::from_nanos(self.least_ns),
            most: Duration::from_nanos(self.most_ns),
        }
    }
}

/// An optional size in bytes, within limits.
pub(crate) fn bytes(
    fields: &Fields<'_>,
    key: &str,
    limits: RangeInclusive<u64>,
    default: u64,
) -> Option<u64> {
    if !fields.takes(key) {
        return Some(default);
    }
    let value = fields.read(key, units::bytes)?;
    if limits.contains(&value) {
        return Some(value);
    }
    let (low, high) = (
        units::show_bytes(*limits.start()),
        units::show_bytes(*limits.end()),
    );
    let what = format!("{key} out of range: {}", units::show_bytes(value));
    fields.wrong(key, what, format!("write {low} to {high}"));
    None
}

/// `warmup` and the required `window`.
pub(crate) fn timing(fields: &Fields<'_>) -> Option<Timing> {
    if !fields.has("window") {
        fields.missing("window", "\"10s\"");
    }
    let warmup = time(fields, "warmup", Duration::from_secs(2));
    let window = fields.read("window", units::duration)?;
    if window < Duration::from_secs(1) {
        let what = format!("window below one second: {}", units::show_duration(window));
        fields.wrong("window", what, "write window = \"10s\"");
        return None;
    }
    let warmup = warmup?;
    Some(Timing { warmup, window })
}

/// `deadline`: the time limit of a request.
pub(crate) fn deadline(fields: &Fields<'_>) -> Option<Duration> {
    let deadline = time(fields, "deadline", Duration::from_secs(10))?;
    if DEADLINES.contains(&deadline) {
        return Some(deadline);
    }
    let what = format!("deadline out of range: {}", units::show_duration(deadline));
    fields.wrong("deadline", what, "write \"1ms\" to \"1h\"");
    None
}

/// A list of paths of requests, percent-encoded.
pub(crate) fn paths(fields: &Fields<'_>, key: &str) -> Option<Vec<String>> {
    let written = fields.texts(key)?;
    let paths = written.iter().filter_map(|text| path(fields, key, text));
    let paths: Vec<_> = paths.collect();
    if written.is_empty() {
        fields.wrong(key, "no path", format!("write {key} = [\"/\"]"));
    }
    Some(paths).filter(|paths| !paths.is_empty())
}

/// The path of a request, percent-encoded.
pub(crate) fn path(fields: &Fields<'_>, key: &str, text: &str) -> Option<String> {
    match url::encode(text) {
        Ok(path) if path.starts_with('/') => return Some(path),
        Ok(path) => {
            let what = format!("path that does not begin with a slash: {path:?}");
            fields.wrong(key, what, format!("write \"/{path}\""));
        }
        Err(why) => fields.wrong(key, why, ""),
    }
    None
}

/// `limit`: the time limit of a workload that runs to completion; used as its window.
pub(crate) fn limit(fields: &Fields<'_>, default: Duration) -> Option<Timing> {
    let window = time(fields, "limit", default)?;
    if window < Duration::from_secs(1) {
        let what = format!("limit below one second: {}", units::show_duration(window));
        fields.wrong("limit", what, "write limit = \"10m\"");
        return None;
    }
    Some(Timing {
        warmup: Duration::ZERO,
        window,
    })
}

/// Steps of a ramp: rising whole numbers.
pub(crate) fn steps(
    fields: &Fields<'_>,
    key: &str,
    limits: RangeInclusive<u64>,
    example: &str,
) -> Option<Vec<u64>> {
    if !fields.has(key) {
        fields.missing(key, example);
    }
    let steps = fields.counts(key, limits)?;
    if steps.is_sorted_by(|one, next| one < next) {
        return Some(steps);
    }
    let what = format!("{key} that do not rise: {steps:?}");
    fields.wrong(key, what, format!("write them like {example}"));
    None
}

/// One of an enum's words, or the default.
pub(crate) fn variant<T>(fields: &Fields<'_>, key: &str, default: T) -> Option<T>
where
    T: Copy + VariantArray + Into<&'static str>,
{
    if fields.takes(key) {
        fields.variant(key)
    } else {
        Some(default)
    }
}
