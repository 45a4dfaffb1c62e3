//! Service over time: changes, outages and recovery.
//!
//! ```text
//! change     Pettitt 1979: K = max |U_t|, where U_t is the rank sum of the first t batches minus its expectation;
//!            placed where two levels fit best; p = 2 exp(-6 K^2 / (n^3 + n^2) / inflation); then both parts alike (binary segmentation)
//! outage     the longest time without a right answer, if too many were expected for chance to be the cause
//! recovery   the first instant from which throughput and p99 are as before for some seconds on end
//! ```

use base::latency::Latency;
use record::disturbances::PlannedSpan;
use record::load::Second;
use record::thinned::Point as _;
use record::verdict::soak::{Change, Outage, PlannedOutage, Quality};

use stats::average::median;
use stats::batches::{self, BATCHES, FEWEST, centred};
use stats::change_points::{rank_weights, segmented, two_levels};

/// Least change of throughput or of a latency that matters, as a share.
const LEAST_CHANGE: f64 = 0.05;

/// Fewest batches on either side of a change.
const SIDE: usize = 6;

/// An outage is a time without right answers in which at least this many were expected.
const OUTAGE_ANSWERS: f64 = 20.0;

/// When service after an instant counts as good as before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Length of the time before the instant that is the reference, in milliseconds.
    pub before_ms: u64,
    /// How long service must be as before, in milliseconds.
    pub hold_ms: u64,
    /// Least throughput, as a share of the median before; or the lowest second before, if that is less.
    pub least_rate: f64,
    /// Highest p99, as a multiple of the median before; or the highest second before, if that is more.
    pub most_p99: f64,
}

impl Default for Band {
    fn default() -> Self {
        Self {
            before_ms: 60_000,
            hold_ms: 10_000,
            least_rate: 0.9,
            most_p99: 1.5,
        }
    }
}

/// How service developed after an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// As before from this many milliseconds after the instant; 0 if it never left the band.
    After(u64),
    /// Still not as before at the end of the timeline, this many milliseconds after the instant.
    Never(u64),
    /// The timeline has nothing before the instant, or nothing after it.
    NotKnown,
}

/// When throughput and p99 were as before an instant for long enough.
///
/// The timeline has seconds in ascending order. Joined seconds make the answer coarser.
pub fn recovery(timeline: &[Second], at_ms: u64, band: &Band) -> Recovery {
    let begin_ms = at_ms.saturating_sub(band.before_ms);
    let end_ms = |second: &Second| second.at_ms.saturating_add(second.length_ms());
    let before: Vec<&Second> = timeline
        .iter()
        .filter(|second| begin_ms <= second.at_ms && end_ms(second) <= at_ms)
        .collect();
    let after = timeline.iter().filter(|second| at_ms < end_ms(second));
    let (Some(limits), Some(last)) = (Limits::new(&before, band), after.clone().next_back()) else {
        return Recovery::NotKnown;
    };
    let mut since_ms = None;
    for second in after {
        if !limits.hold(second) {
            since_ms = None;
            continue;
        }
        let since = *since_ms.get_or_insert(second.at_ms.max(at_ms));
        if end_ms(second).saturating_sub(since) >= band.hold_ms {
            return Recovery::After(since - at_ms);
        }
    }
    Recovery::Never(end_ms(last).saturating_sub(at_ms))
}

/// Service within these limits is as before.
struct Limits {
    least_per_s: f64,
    most_p99_ns: f64,
}

impl Limits {
    /// `None` if there are no seconds before the instant.
    fn new(before: &[&Second], band: &Band) -> Option<Self> {
        let rates: Vec<f64> = before.iter().map(|second| per_s(second)).collect();
        let p99: Vec<f64> = before.iter().map(|second| p99_ns(second)).collect();
        let least = rates.iter().copied().reduce(f64::min)?;
        let most = p99.iter().copied().reduce(f64::max)?;
        Some(Self {
            least_per_s: least.min(band.least_rate * median(&rates)),
            most_p99_ns: most.max(band.most_p99 * median(&p99)),
        })
    }

    fn hold(&self, second: &Second) -> bool {
        let serves = second.ok > 0 || self.least_per_s <= 0.0;
        serves && self.least_per_s <= per_s(second) && p99_ns(second) <= self.most_p99_ns
    }
}

fn per_s(second: &Second) -> f64 {
    second.ok as f64 / second.length_s()
}

fn p99_ns(second: &Second) -> f64 {
    second.latency.unpack().quantile_ns(0.99) as f64
}

/// The longest outages of a trial, outside and during planned disturbances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outages {
    pub(crate) unplanned: Option<Outage>,
    pub(crate) planned: Option<PlannedOutage>,
}

/// An outage is planned for as long as the disturbance's span lasts, until service was as before, and unplanned from then on.
///
/// Of joined seconds only three times without answers are known: the longest one, and those at both ends.
pub(crate) fn outages(timeline: &[Second], spans: &[PlannedSpan<'_>]) -> Outages {
    let length_ms: u64 = timeline.iter().map(Second::length_ms).sum();
    let ok: u64 = timeline.iter().map(|second| second.ok).sum();
    let is_outage = |idle_ms: u64| {
        let busy_ms = length_ms.saturating_sub(idle_ms).max(1);
        let expected = ok as f64 / busy_ms as f64 * idle_ms as f64;
        expected >= OUTAGE_ANSWERS
    };
    let (mut unplanned, mut planned) = (None::<Outage>, None::<PlannedOutage>);
    for idle in idle_times(timeline) {
        let during = spans.iter().filter_map(|span| overlap(&idle, span));
        if let Some(during) = during.max_by_key(|outage| outage.length_ms)
            && planned
                .as_ref()
                .is_none_or(|longest| longest.length_ms < during.length_ms)
        {
            planned = Some(during);
        }
        let outside = longest_outside(idle, spans);
        if unplanned.is_none_or(|longest| longest.length_ms < outside.length_ms) {
            unplanned = Some(outside);
        }
    }
    Outages {
        unplanned: unplanned.filter(|outage| is_outage(outage.length_ms)),
        planned: planned.filter(|outage| is_outage(outage.length_ms)),
    }
}

/// All known times without a right answer.
fn idle_times(timeline: &[Second]) -> Vec<Outage> {
    let mut all = Vec::new();
    let mut open = Outage {
        trial: 0,
        at_ms: 0,
        length_ms: 0,
    };
    for point in timeline {
        let (idle, point_ms) = (point.extremes().idle, point.length_ms());
        if open.length_ms == 0 {
            open.at_ms = point.at_ms;
        }
        open.length_ms += idle.first_ms;
        if idle.first_ms == point_ms {
            continue;
        }
        all.push(open);
        all.push(Outage {
            trial: 0,
            at_ms: idle.longest_at_ms,
            length_ms: idle.longest_ms,
        });
        open = Outage {
            trial: 0,
            at_ms: point
                .at_ms
                .saturating_add(point_ms - idle.last_ms.min(point_ms)),
            length_ms: idle.last_ms,
        };
    }
    all.push(open);
    all
}

/// The part of an idle time during a disturbance.
fn overlap(idle: &Outage, span: &PlannedSpan<'_>) -> Option<PlannedOutage> {
    let (begin_ms, until_ms) = whole_seconds(span);
    let at_ms = idle.at_ms.max(begin_ms);
    let end_ms = idle.at_ms.saturating_add(idle.length_ms).min(until_ms);
    (at_ms < end_ms).then(|| PlannedOutage {
        name: span.name.into(),
        trial: 0,
        at_ms,
        length_ms: end_ms - at_ms,
    })
}

/// The longest part of an idle time outside all disturbances.
fn longest_outside(idle: Outage, spans: &[PlannedSpan<'_>]) -> Outage {
    let mut spans: Vec<(u64, u64)> = spans.iter().map(whole_seconds).collect();
    spans.sort_unstable();
    let end_ms = idle.at_ms.saturating_add(idle.length_ms);
    spans.push((end_ms, u64::MAX));
    let mut longest = Outage {
        length_ms: 0,
        ..idle
    };
    let mut from_ms = idle.at_ms;
    for (begin_ms, until_ms) in spans {
        let length_ms = begin_ms.min(end_ms).saturating_sub(from_ms);
        if longest.length_ms < length_ms {
            longest = Outage {
                at_ms: from_ms,
                length_ms,
                ..idle
            };
        }
        from_ms = from_ms.max(until_ms);
    }
    longest
}

/// Begin and end of a span, extended to whole seconds: the timeline is no finer.
fn whole_seconds(span: &PlannedSpan<'_>) -> (u64, u64) {
    let begin_ms = span.begin_ms / 1000 * 1000;
    (begin_ms, span.until_ms.div_ceil(1000).saturating_mul(1000))
}

/// Qualities of service that are tested for changes.
const QUALITIES: [Quality; 5] = [
    Quality::Throughput,
    Quality::P50,
    Quality::P99,
    Quality::P999,
    Quality::Failures,
];

/// Changes of service in one trial, by quality, then by time.
///
/// `error_rate` is the probability of reporting any change if nothing changed.
pub(crate) fn changes(timeline: &[Second], error_rate: f64) -> Vec<Change> {
    let batches = joined(timeline);
    if batches.len() < FEWEST {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for quality in QUALITIES {
        let Some(values) = values(quality, &batches) else {
            continue;
        };
        let segments = segmented(&values, &|part| {
            pettitt(part).filter(|(_, p_value)| *p_value <= error_rate / QUALITIES.len() as f64)
        });
        let mut edges = vec![0];
        edges.extend(segments.iter().map(|change_point| change_point.place));
        edges.push(values.len());
        changes.extend(edges.windows(3).map(|edge| Change {
            trial: 0,
            quality,
            at_ms: batches[edge[1]].at_ms,
            before: typical(quality, &values[edge[0]..edge[1]]),
            after: typical(quality, &values[edge[1]..edge[2]]),
        }));
    }
    changes.retain(matters);
    changes
}

/// Joins neighbouring seconds into about `BATCHES` batches of equal length.
fn joined(timeline: &[Second]) -> Vec<Second> {
    let end_ms = timeline
        .last()
        .map_or(0, |last| last.at_ms + last.length_ms());
    let width_ms = (end_ms / BATCHES as u64).max(1000);
    let batch = |second: &Second| second.at_ms / width_ms;
    let groups = timeline.chunk_by(|second, next| batch(second) == batch(next));
    let mut batches: Vec<Second> = groups.map(Second::join).collect();
    // A short remainder at the end is dropped.
    if batches
        .last()
        .is_some_and(|last| last.length_ms() < width_ms / 2)
    {
        batches.pop();
    }
    batches
}

/// `None` if a batch has too few requests.
fn values(quality: Quality, batches: &[Second]) -> Option<Vec<f64>> {
    let value = |batch: &Second| -> Option<f64> {
        let total = batch.ok + batch.faults;
        match quality {
            Quality::Throughput => Some(per_s(batch)),
            Quality::Failures => Some(batch.faults as f64 / total.max(1) as f64),
            Quality::P50 => quantile(batch, 0.5),
            Quality::P99 => quantile(batch, 0.99),
            Quality::P999 => quantile(batch, 0.999),
        }
    };
    batches.iter().map(value).collect()
}

/// A latency in milliseconds; `f64::MAX`, slower than any, for a batch without answers; `None` for one with too few.
fn quantile(batch: &Second, quantile: f64) -> Option<f64> {
    let latency: Latency = batch.latency.unpack();
    if batch.ok == 0 {
        return Some(f64::MAX);
    }
    let enough = latency.count() as f64 * (1.0 - quantile) >= 5.0;
    enough.then(|| latency.quantile_ns(quantile) as f64 / 1e6)
}

fn typical(quality: Quality, values: &[f64]) -> f64 {
    match quality {
        Quality::Throughput | Quality::P50 | Quality::P99 | Quality::P999 => median(values),
        Quality::Failures => values.iter().sum::<f64>() / values.len() as f64,
    }
}

fn matters(change: &Change) -> bool {
    match change.quality {
        Quality::Throughput | Quality::P50 | Quality::P99 | Quality::P999 => {
            let apart = (change.after - change.before).abs();
            apart >= LEAST_CHANGE * change.before.min(change.after).max(f64::MIN_POSITIVE)
        }
        Quality::Failures => true,
    }
}

/// Pettitt's test: the number of values before the change, and the p-value; `None` for too few values.
fn pettitt(values: &[f64]) -> Option<(usize, f64)> {
    let count = values.len();
    if count < 2 * SIDE {
        return None;
    }
    let weights = rank_weights(values);
    let (mut sum, mut k) = (0.0, 0.0_f64);
    for (index, weight) in weights.iter().enumerate() {
        sum += weight;
        if (SIDE..=count - SIDE).contains(&(index + 1)) {
            k = k.max(sum.abs());
        }
    }
    let index = best_split(values);
    // Ranks limit the weight of a batch without answers.
    let (before, after) = weights.split_at(index);
    let residuals = [centred(before), centred(after)].concat();
    let n = count as f64;
    let exponent = -6.0 * k * k / (n.powi(3) + n.powi(2)) / batches::inflation(&residuals, 1.0);
    Some((index, (2.0 * exponent.exp()).min(1.0)))
}

/// The number of values before the change if two levels fit best.
fn best_split(values: &[f64]) -> usize {
    let finite = values.iter().filter(|value| **value < f64::MAX);
    let highest = finite.copied().fold(0.0, f64::max);
    // A batch without answers counts as slower than any, but not as infinitely slow.
    let values: Vec<f64> = values
        .iter()
        .map(|value| value.min(2.0 * highest))
        .collect();
    two_levels(&values, SIDE)
}

#[cfg(test)]
mod tests;
