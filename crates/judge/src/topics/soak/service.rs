//! Service over time: where it changed, how long it was out, and how soon it came back.
//!
//! ```text
//! change     Pettitt 1979: K = max |U_t|, U_t the rank sum of the first t batches less what it would be by chance,
//!            placed where two levels fit best; p = 2 exp(-6 K^2 / (n^3 + n^2) / inflation); then the same in both parts (binary segmentation)
//! outage     the longest time without a right answer, where so many were to be expected that chance is no cause
//! recovery   the first instant from which throughput and p99 are as before for some seconds on end
//! ```

use record::disturbances::PlannedSpan;
use record::latency::Latency;
use record::load::Second;
use record::thinned::Point as _;
use record::verdict::soak::{Change, Outage, PlannedOutage, Quality};

use stats::average::median;
use stats::batches;
use stats::batches::{BATCHES, FEWEST, centred};
use stats::change_points::{rank_weights, segmented, two_levels};

/// A smaller change of throughput or of a latency is none that matters, as a share.
const LEAST_CHANGE: f64 = 0.05;

/// Batches on either side of a change, at the least.
const SIDE: usize = 6;

/// Right answers that a time without any would have had, at the least, to be called an outage.
const OUTAGE_ANSWERS: f64 = 20.0;

/// What is compared with the time before an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// How much of the time before the instant is looked at, in milliseconds.
    pub before_ms: u64,
    /// How long it must be as before, in milliseconds.
    pub hold_ms: u64,
    /// Least throughput, as a share of the median before; where a second before had less, that.
    pub least_rate: f64,
    /// Highest p99, as a multiple of the median before; where a second before had more, that.
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

/// How service went on after an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// As before from so many milliseconds after the instant on; 0 where it never left the band.
    After(u64),
    /// Not as before at the end of what was looked at, so many milliseconds after the instant.
    Never(u64),
    /// There is nothing before the instant, or nothing after it.
    NotKnown,
}

/// When throughput and p99 were as before an instant for long enough. Points are seconds, in their order; where they are old and joined
/// the answer is as coarse as they are.
pub fn recovery(timeline: &[Second], at_ms: u64, band: &Band) -> Recovery {
    let begin_ms = at_ms.saturating_sub(band.before_ms);
    let end_ms = |one: &Second| one.at_ms.saturating_add(one.length_ms());
    let before: Vec<&Second> = timeline
        .iter()
        .filter(|one| begin_ms <= one.at_ms && end_ms(one) <= at_ms)
        .collect();
    let after: Vec<&Second> = timeline.iter().filter(|one| at_ms < end_ms(one)).collect();
    let (Some(limits), Some(last)) = (Limits::of(&before, band), after.last()) else {
        return Recovery::NotKnown;
    };
    let mut since_ms = None;
    for one in &after {
        if !limits.hold(one) {
            since_ms = None;
            continue;
        }
        let since = *since_ms.get_or_insert(one.at_ms.max(at_ms));
        if end_ms(one).saturating_sub(since) >= band.hold_ms {
            return Recovery::After(since - at_ms);
        }
    }
    Recovery::Never(end_ms(last).saturating_sub(at_ms))
}

/// Within which service is as before.
struct Limits {
    least_per_s: f64,
    most_p99_ns: f64,
}

impl Limits {
    fn of(before: &[&Second], band: &Band) -> Option<Self> {
        let rates: Vec<f64> = before.iter().map(|one| per_s(one)).collect();
        let p99: Vec<f64> = before.iter().map(|one| p99_ns(one)).collect();
        let least = rates.iter().copied().reduce(f64::min)?;
        let most = p99.iter().copied().reduce(f64::max)?;
        Some(Self {
            least_per_s: least.min(band.least_rate * median(&rates)),
            most_p99_ns: most.max(band.most_p99 * median(&p99)),
        })
    }

    fn hold(&self, one: &Second) -> bool {
        let serves = one.ok > 0 || self.least_per_s <= 0.0;
        serves && self.least_per_s <= per_s(one) && p99_ns(one) <= self.most_p99_ns
    }
}

fn per_s(one: &Second) -> f64 {
    one.ok as f64 / one.length_s()
}

fn p99_ns(one: &Second) -> f64 {
    one.latency.unpack().quantile_ns(0.99) as f64
}

/// The longest outages of a trial: that which no disturbance of the plan made, and that which one did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outages {
    pub(crate) unplanned: Option<Outage>,
    pub(crate) planned: Option<PlannedOutage>,
}

/// Time without a right answer is a disturbance's from its beginning until service was as before; what goes on for longer is not its
/// from there on. Of points that are sums of seconds the longest such time is known, and those at their two ends.
pub(crate) fn outages(timeline: &[Second], spans: &[PlannedSpan<'_>]) -> Outages {
    let length_ms: u64 = timeline.iter().map(Second::length_ms).sum();
    let ok: u64 = timeline.iter().map(|one| one.ok).sum();
    let is_outage = |one: &Outage| {
        let busy_ms = length_ms.saturating_sub(one.length_ms).max(1);
        let expected = ok as f64 / busy_ms as f64 * one.length_ms as f64;
        expected >= OUTAGE_ANSWERS
    };
    let (mut unplanned, mut planned) = (None::<Outage>, None::<PlannedOutage>);
    for idle in idle_times(timeline) {
        let own = spans.iter().filter_map(|span| overlap(&idle, span));
        let own = own.max_by_key(|one| one.length_ms);
        if let Some(own) = own
            && planned
                .as_ref()
                .is_none_or(|one| one.length_ms < own.length_ms)
        {
            planned = Some(own);
        }
        let rest = beyond(idle, spans);
        if unplanned.is_none_or(|one| one.length_ms < rest.length_ms) {
            unplanned = Some(rest);
        }
    }
    let is_planned_outage = |one: &PlannedOutage| {
        is_outage(&Outage {
            trial: 0,
            at_ms: one.at_ms,
            length_ms: one.length_ms,
        })
    };
    Outages {
        unplanned: unplanned.filter(is_outage),
        planned: planned.filter(is_planned_outage),
    }
}

/// All times without a right answer that are known.
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

/// How much of it is the disturbance's.
fn overlap(idle: &Outage, span: &PlannedSpan<'_>) -> Option<PlannedOutage> {
    let (first_ms, last_ms) = seconds_of(span);
    let at_ms = idle.at_ms.max(first_ms);
    let end_ms = idle.at_ms.saturating_add(idle.length_ms).min(last_ms);
    (at_ms < end_ms).then(|| PlannedOutage {
        name: span.name.into(),
        trial: 0,
        at_ms,
        length_ms: end_ms - at_ms,
    })
}

/// The longest part of it that is no disturbance's.
fn beyond(idle: Outage, spans: &[PlannedSpan<'_>]) -> Outage {
    let mut spans: Vec<(u64, u64)> = spans.iter().map(seconds_of).collect();
    spans.sort_unstable();
    let end_ms = idle.at_ms.saturating_add(idle.length_ms);
    spans.push((end_ms, u64::MAX));
    let mut best = Outage {
        length_ms: 0,
        ..idle
    };
    let mut from_ms = idle.at_ms;
    for (first_ms, last_ms) in spans {
        let length_ms = first_ms.min(end_ms).saturating_sub(from_ms);
        if best.length_ms < length_ms {
            best = Outage {
                at_ms: from_ms,
                length_ms,
                ..idle
            };
        }
        from_ms = from_ms.max(last_ms);
    }
    best
}

/// Whole seconds: nothing is known of parts of them.
fn seconds_of(span: &PlannedSpan<'_>) -> (u64, u64) {
    let first = span.begin_ms / 1000 * 1000;
    (first, span.until_ms.div_ceil(1000).saturating_mul(1000))
}

/// What is looked at for changes.
pub(crate) const QUALITIES: [Quality; 5] = [
    Quality::Throughput,
    Quality::P50,
    Quality::P99,
    Quality::P999,
    Quality::Failures,
];

/// Changes of service in one trial, by quality, then by time. `error_rate` is the chance that there is any where nothing changed.
pub(crate) fn changes(timeline: &[Second], error_rate: f64) -> Vec<Change> {
    let batches = joined(timeline);
    if batches.len() < FEWEST {
        return Vec::new();
    }
    let of = |quality: Quality| {
        let values = values(quality, &batches)?;
        let found = segmented(&values, &|part| {
            pettitt(part).filter(|(_, p_value)| *p_value <= error_rate / QUALITIES.len() as f64)
        });
        let mut edges = vec![0];
        edges.extend(found.iter().map(|one| one.place));
        edges.push(values.len());
        let change = |edge: &[usize]| {
            let (before, after) = (&values[edge[0]..edge[1]], &values[edge[1]..edge[2]]);
            Change {
                trial: 0,
                quality,
                at_ms: batches[edge[1]].at_ms,
                before: typical(quality, before),
                after: typical(quality, after),
            }
        };
        Some(edges.windows(3).map(change).collect::<Vec<_>>())
    };
    let all = QUALITIES.into_iter().filter_map(of).flatten();
    all.filter(matters).collect()
}

/// Neighbouring points as one, so that there are about `BATCHES` of equal time.
fn joined(timeline: &[Second]) -> Vec<Second> {
    let end_ms = timeline
        .last()
        .map_or(0, |last| last.at_ms + last.length_ms());
    let width_ms = (end_ms / BATCHES as u64).max(1000);
    let group = |one: &Second| one.at_ms / width_ms;
    let groups = timeline.chunk_by(|one, next| group(one) == group(next));
    let mut batches: Vec<Second> = groups.map(Second::join).collect();
    // What is left over at the end is no batch.
    if batches
        .last()
        .is_some_and(|last| last.length_ms() < width_ms / 2)
    {
        batches.pop();
    }
    batches
}

/// `None` where a batch has too few requests to tell.
fn values(quality: Quality, batches: &[Second]) -> Option<Vec<f64>> {
    let of = |one: &Second| -> Option<f64> {
        let total = one.ok + one.faults;
        match quality {
            Quality::Throughput => Some(per_s(one)),
            Quality::Failures => Some(one.faults as f64 / total.max(1) as f64),
            Quality::P50 => quantile(one, 0.5),
            Quality::P99 => quantile(one, 0.99),
            Quality::P999 => quantile(one, 0.999),
        }
    };
    batches.iter().map(of).collect()
}

/// In milliseconds; a batch without answers has none, and takes the place of the slowest.
fn quantile(one: &Second, quantile: f64) -> Option<f64> {
    let latency: Latency = one.latency.unpack();
    if one.ok == 0 {
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

/// Where values change most, as the number of those before, and how likely that is where none do. `None` of too few.
pub(crate) fn pettitt(values: &[f64]) -> Option<(usize, f64)> {
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
    let place = split(values);
    // Ranks, so that a batch without answers weighs no more than others.
    let (before, after) = weights.split_at(place);
    let rest = [centred(before), centred(after)].concat();
    let n = count as f64;
    let exponent = -6.0 * k * k / (n.powi(3) + n.powi(2)) / batches::inflation(&rest, 1.0);
    Some((place, (2.0 * exponent.exp()).min(1.0)))
}

/// Where two levels fit best.
fn split(values: &[f64]) -> usize {
    let finite = values.iter().filter(|value| **value < f64::MAX);
    let highest = finite.copied().fold(0.0, f64::max);
    // A batch without answers is slower than any, and says no more than that.
    let values: Vec<f64> = values
        .iter()
        .map(|value| value.min(2.0 * highest))
        .collect();
    two_levels(&values, SIDE)
}

#[cfg(test)]
mod tests;
