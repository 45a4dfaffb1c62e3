//! The seconds around a disturbance: the usual rate, the service during it, and the time of recovery.

use std::collections::BTreeMap;

use plan::PlannedDisturbance;

use super::{DisturbanceRecord, Effect, ServiceAround};
use crate::load::Second;

/// Most undisturbed seconds before a disturbance from which the usual rate is estimated.
const MOST_SECONDS_BEFORE: usize = 30;

/// How long before a disturbance seconds are kept.
const BEFORE_MS: u64 = 30_000;

/// How long after a disturbance the service is watched.
const AFTER_MS: u64 = 600_000;

/// A recovered second has this share of the usual throughput, and no more failures than any second before the disturbance.
const USUAL_SHARE: f64 = 0.9;

/// Consecutive recovered seconds that a recovery needs.
const USUAL_SECONDS: usize = 3;

/// Standard deviations below the usual rate that random arrivals may reach by chance: one in fifty does.
const CHANCE: f64 = 2.0;

/// Most seconds that are added up for a comparison with the usual rate.
const MOST_SECONDS: usize = 60;

/// The seconds of a load around its disturbances. All others are dropped, so that memory does not grow with the window.
#[derive(Debug, Clone, Default)]
pub struct SecondsAround {
    /// Beginning and end of each planned disturbance, in milliseconds.
    spans: Vec<(u64, u64)>,
    /// Successful and failed requests, by the beginning of the second.
    seconds: BTreeMap<u64, (u64, u64)>,
    /// End of the last second.
    end_ms: u64,
}

impl SecondsAround {
    /// No seconds yet, for these planned disturbances.
    pub fn new(planned: &[PlannedDisturbance]) -> Self {
        let mut spans: Vec<_> = planned.iter().flat_map(spans_of).collect();
        spans.sort_unstable();
        Self {
            spans,
            ..Self::default()
        }
    }

    /// Adds a second, or a late part of one.
    pub fn take(&mut self, second: &Second) {
        // Joined seconds cannot be separated.
        if second.joined.is_some() {
            return;
        }
        let at = second.at_ms;
        self.end_ms = self.end_ms.max(at.saturating_add(1000));
        let is_near = |(begin, end): &(u64, u64)| {
            begin.saturating_sub(BEFORE_MS) <= at && at < end.saturating_add(AFTER_MS)
        };
        if self.spans.iter().any(is_near) {
            let (ok, failed) = self.seconds.entry(at).or_default();
            *ok = ok.saturating_add(second.ok);
            *failed = failed.saturating_add(second.faults);
        }
    }

    /// Sets `service` of each record; records must be in the order of their beginning.
    pub fn tell(&self, records: &mut [DisturbanceRecord]) {
        // End of the last second whose failures are counted.
        let mut counted_ms = 0;
        // From the beginning of each disturbance until recovery.
        let mut unusual = Vec::new();
        for record in records {
            if matches!(record.effect, Effect::Impossible { .. }) {
                continue;
            }
            let Some(mut service) = self.around(record.begin_ms, record.end_ms, &unusual) else {
                unusual.push((record.begin_ms, record.end_ms));
                continue;
            };
            let until_ms = nearest(record.end_ms + service.at_least_ms());
            let until_ms = until_ms.max(nearest(record.end_ms));
            let first_ms = nearest(record.begin_ms);
            let counted_until_ms = counted_ms.clamp(first_ms, until_ms.max(first_ms));
            let counted = self.seconds.range(first_ms..counted_until_ms);
            let counted_failures: u64 = counted.map(|(_, (_, failed))| failed).sum();
            service.counted_before = counted_failures.min(service.all_failed());
            counted_ms = counted_ms.max(until_ms);
            unusual.push((record.begin_ms, until_ms));
            record.service = Some(service);
        }
    }

    /// Service around a disturbance; `None` without a second before or during it. The usual rate is estimated from seconds outside of
    /// all planned disturbances and of `unusual`.
    fn around(&self, begin_ms: u64, end_ms: u64, unusual: &[(u64, u64)]) -> Option<ServiceAround> {
        let is_disturbed = |at: u64| {
            let mut spans = self.spans.iter().chain(unusual);
            spans.any(|span| span.0 < at + 1000 && at < span.1)
        };
        let before: Vec<(u64, u64)> = self
            .seconds
            .range(..begin_ms)
            .rev()
            .filter(|(at, _)| **at + 1000 <= begin_ms && !is_disturbed(**at))
            .map(|(_, counts)| *counts)
            .take(MOST_SECONDS_BEFORE)
            .collect();
        let usual = median(before.iter().map(|(ok, _)| *ok).collect())?;
        let most_failed = before.iter().map(|(_, failed)| *failed).max().unwrap_or(0);
        let (first, last) = (nearest(begin_ms), nearest(end_ms));
        let last = last.max(first + 1000);
        let during: Vec<_> = self.seconds.range(first..last).collect();
        if during.is_empty() {
            return None;
        }
        let served: u64 = during.iter().map(|(_, (ok, _))| ok).sum();
        let next = self.spans.iter().map(|span| span.0);
        let next = next.filter(|begin| *begin >= end_ms).min();
        let until = next.unwrap_or(u64::MAX).min(self.end_ms);
        let until = until.min(end_ms.saturating_add(AFTER_MS));
        let after: Vec<(u64, (u64, u64))> = self
            .seconds
            .range(last..until.max(last))
            .map(|(at, counts)| (*at, *counts))
            .filter(|(at, _)| at + 1000 <= until)
            .collect();
        let usual_rate = UsualRate::of(before.iter().map(|(ok, _)| *ok).collect());
        let recovered = usual_rate.first_recovered(&after, most_failed);
        let unusual = &after[..recovered.unwrap_or(after.len())];
        Some(ServiceAround {
            before_per_s: usual,
            during_per_s: served as f64 / during.len() as f64,
            failed: during.iter().map(|(_, (_, failed))| failed).sum(),
            counted_before: 0,
            failed_after: unusual.iter().map(|(_, (_, failed))| failed).sum(),
            recovery_ms: recovered.map(|index| after[index].0.saturating_sub(end_ms)),
            watched_ms: until.saturating_sub(end_ms),
        })
    }
}

/// The usual throughput, and how far a sum of seconds may be below it by chance.
///
/// Random arrivals follow a Poisson process: the sum of n seconds at u per second has the variance n u. The estimate of u is the
/// interquartile mean of m seconds, whose variance is 1.2 u / m. At 40 requests per second, 17 seconds are needed to detect a decrease by a
/// tenth.
struct UsualRate {
    per_s: f64,
    seconds: f64,
}

/// Variance of the interquartile mean over that of the mean, for normal values.
const MIDDLE_HALF: f64 = 1.2;

impl UsualRate {
    /// Estimates it from the seconds before a disturbance, at least one.
    fn of(mut before: Vec<u64>) -> Self {
        before.sort_unstable();
        let quarter = before.len() / 4;
        let middle = &before[quarter..before.len() - quarter];
        Self {
            per_s: middle.iter().sum::<u64>() as f64 / middle.len() as f64,
            seconds: before.len() as f64,
        }
    }

    /// How far the sum of a number of seconds may be below the usual one by chance.
    fn chance(&self, seconds: f64) -> f64 {
        let of_estimate = MIDDLE_HALF * seconds / self.seconds;
        CHANCE * (seconds * self.per_s * (1.0 + of_estimate)).sqrt()
    }

    /// Lowest usual sum of a number of seconds.
    fn least(&self, seconds: usize) -> f64 {
        let seconds = seconds as f64;
        let usual = seconds * self.per_s;
        usual - ((1.0 - USUAL_SHARE) * usual).max(self.chance(seconds))
    }

    /// Number of seconds that distinguish a decrease by a tenth from chance, at most `MOST_SECONDS`.
    fn seconds_needed(&self) -> usize {
        let is_enough = |seconds: &usize| {
            let seconds = *seconds as f64;
            self.chance(seconds) <= (1.0 - USUAL_SHARE) * seconds * self.per_s
        };
        (USUAL_SECONDS..MOST_SECONDS)
            .find(is_enough)
            .unwrap_or(MOST_SECONDS)
    }

    /// Index of the first second from which the service has recovered: the first three seconds are each as usual, and so is the sum of
    /// `seconds_needed`, but of no more than half of all.
    fn first_recovered(&self, after: &[(u64, (u64, u64))], most_failed: u64) -> Option<usize> {
        let length = self.seconds_needed().min(after.len() / 2);
        let length = length.max(USUAL_SECONDS);
        let (least_ok, least_sum) = (self.least(1), self.least(length));
        let is_usual = |(_, (ok, failed)): &(u64, (u64, u64))| {
            *ok as f64 >= least_ok && *failed <= most_failed
        };
        after.windows(length).position(|seconds| {
            let sum: u64 = seconds.iter().map(|(_, (ok, _))| ok).sum();
            seconds[..USUAL_SECONDS].iter().all(is_usual) && sum as f64 >= least_sum
        })
    }
}

/// The nearest whole second. Disturbances seldom begin or end exactly with a second, which belongs to the larger part of it.
fn nearest(ms: u64) -> u64 {
    (ms + 499) / 1000 * 1000
}

fn spans_of(planned: &PlannedDisturbance) -> impl Iterator<Item = (u64, u64)> {
    let span = |at: &u64| (*at, at.saturating_add(planned.length_ms));
    planned.at_ms.iter().map(span)
}

fn median(mut values: Vec<u64>) -> Option<f64> {
    values.sort_unstable();
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length.is_multiple_of(2) => Some(f64::midpoint(
            values[middle - 1] as f64,
            values[middle] as f64,
        )),
        _ => Some(values[middle] as f64),
    }
}

#[cfg(test)]
mod tests {
    use plan::DisturbanceKind;

    use super::super::planned_failures;
    use super::*;
    use crate::prng::SplitMix64;

    /// A minute with disturbances in these spans; `counts` returns successful and failed requests of a second.
    fn around(spans: &[(u64, u64)], counts: impl Fn(u64) -> (u64, u64)) -> SecondsAround {
        let planned = |(at, end): &(u64, u64)| PlannedDisturbance {
            name: "loss".into(),
            kind: DisturbanceKind::LinkDown,
            at_ms: vec![at * 1000],
            length_ms: (end - at) * 1000,
        };
        let planned: Vec<_> = spans.iter().map(planned).collect();
        let mut seconds = SecondsAround::new(&planned);
        for second in 0..60 {
            let (ok, faults) = counts(second);
            seconds.take(&Second {
                at_ms: second * 1000,
                ok,
                faults,
                ..Second::default()
            });
        }
        seconds
    }

    fn is_about(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9, "{value}");
    }

    #[test]
    fn recovery_takes_until_three_usual_seconds() {
        // Down from 10 to 15, then slow for four seconds, with one usual second among them.
        let seconds = around(&[(10, 15)], |second| match second {
            10..15 => (0, 7),
            15 | 17 | 18 => (50, 1),
            _ => (100, 0),
        });
        let service = seconds.around(10_000, 15_000, &[]).unwrap();
        assert_eq!(service.recovery_ms, Some(4000));
        assert_eq!((service.failed, service.failed_after), (35, 3));
        is_about(service.during_per_s, 0.0);
        is_about(service.before_per_s, 100.0);
        assert_eq!(service.watched_ms, 45_000);
        assert_eq!(service.at_least_ms(), 4000);
    }

    #[test]
    fn uninterrupted_service_recovers_at_once() {
        let seconds = around(&[(10, 15)], |_| (100, 0));
        let service = seconds.around(10_003, 15_004, &[]).unwrap();
        assert_eq!((service.recovery_ms, service.all_failed()), (Some(0), 0));
        is_about(service.during_per_s, 100.0);
    }

    #[test]
    fn service_without_recovery_lasts_as_long_as_it_was_watched() {
        let seconds = around(&[(10, 15), (20, 25)], |second| match second {
            0..10 => (100, 0),
            _ => (10, 0),
        });
        let mut records = [record(10_000, 15_000), record(20_000, 25_000)];
        seconds.tell(&mut records);
        let [first, second] = records.map(|record| record.service.unwrap());
        assert_eq!((first.recovery_ms, first.watched_ms), (None, 5000));
        assert_eq!(first.at_least_ms(), 5000);
        // The seconds between them follow from the first disturbance, and are not usual.
        is_about(second.before_per_s, 100.0);
        assert_eq!(second.recovery_ms, None);
    }

    fn record(begin_ms: u64, end_ms: u64) -> DisturbanceRecord {
        DisturbanceRecord {
            name: "one".into(),
            begin_ms,
            end_ms,
            effect: Effect::Unfelt {
                counts: BTreeMap::new(),
            },
            service: None,
        }
    }

    /// The first second of a restored link has failures, and a high rate because the backlog is served.
    #[test]
    fn seconds_before_recovery_are_not_usual_for_the_next_disturbance() {
        let spans = [(10, 15), (18, 23), (26, 31)];
        let seconds = around(&spans, |second| match second {
            10..15 | 18..23 | 26..31 => (0, 20),
            15 | 31 => (200, 11),
            23 => (200, 9),
            _ => (100, 0),
        });
        let mut records = spans.map(|(begin, end)| record(begin * 1000, end * 1000));
        seconds.tell(&mut records);
        for record in &records {
            let service = record.service.as_ref().unwrap();
            is_about(service.before_per_s, 100.0);
            // Two seconds between disturbances are too few for a recovery; only the last one is followed by more.
            let is_last = record.begin_ms == 26_000;
            assert_eq!(service.recovery_ms, is_last.then_some(1000), "{record:?}");
        }
        assert_eq!(planned_failures(&records), 331);
    }

    #[test]
    fn a_failure_is_attributed_to_one_disturbance_only() {
        // One failure in each disturbed second; the disturbances overlap for three seconds. Second 40 has unrelated failures.
        let seconds = around(&[(10, 15), (12, 20)], |second| match second {
            10..20 => (50, 1),
            40 => (50, 100),
            _ => (100, 0),
        });
        let mut records = [record(10_000, 15_000), record(12_000, 20_000)];
        seconds.tell(&mut records);
        let [first, second] = records.clone().map(|record| record.service.unwrap());
        assert_eq!((first.all_failed(), first.counted_before), (10, 0));
        assert_eq!((second.all_failed(), second.counted_before), (8, 8));
        assert_eq!(planned_failures(&records), 10);
    }

    #[test]
    fn only_seconds_near_a_disturbance_are_kept() {
        let planned = PlannedDisturbance {
            name: "loss".into(),
            kind: DisturbanceKind::LinkDown,
            at_ms: vec![7_200_000],
            length_ms: 20_000,
        };
        let mut seconds = SecondsAround::new(&[planned]);
        for second in 0..14 * 24 * 3600 {
            seconds.take(&Second {
                at_ms: second * 1000,
                ok: 100,
                ..Second::default()
            });
        }
        assert_eq!(seconds.seconds.len(), 30 + 20 + 600);
        let service = seconds.around(7_200_000, 7_220_000, &[]).unwrap();
        assert_eq!(service.recovery_ms, Some(0));
    }

    /// A random number of Poisson arrivals in a second (Knuth's algorithm; above 100 per second, the sum of two halves).
    fn arrivals(prng: &mut SplitMix64, per_s: f64) -> u64 {
        if per_s > 100.0 {
            return arrivals(prng, per_s / 2.0) + arrivals(prng, per_s / 2.0);
        }
        let (limit, mut product, mut count) = ((-per_s).exp(), prng.unit(), 0);
        while product > limit {
            product *= prng.unit();
            count += 1;
        }
        count
    }

    /// Recovery times of 200 disturbances in seconds, sorted; 999 without recovery. Each lasts for a second after 30 s and is watched for
    /// 120 s. `share` is the share of the usual rate in each second after it.
    fn recoveries(per_s: f64, share: impl Fn(u64) -> f64) -> Vec<u64> {
        let planned = PlannedDisturbance {
            name: "loss".into(),
            kind: DisturbanceKind::LinkDown,
            at_ms: vec![30_000],
            length_ms: 1000,
        };
        let mut prng = SplitMix64::new(7);
        let mut all = Vec::new();
        for _ in 0..200 {
            let mut seconds = SecondsAround::new(std::slice::from_ref(&planned));
            for second in 0..151 {
                let share = if second < 31 { 1.0 } else { share(second - 31) };
                seconds.take(&Second {
                    at_ms: second * 1000,
                    ok: arrivals(&mut prng, per_s * share),
                    ..Second::default()
                });
            }
            let service = seconds.around(30_000, 31_000, &[]).unwrap();
            all.push(service.recovery_ms.map_or(999, |ms| ms / 1000));
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn random_arrivals_do_not_delay_recovery_and_slow_service_has_none() {
        for per_s in [5.0, 40.0, 200.0, 3000.0] {
            let calm = recoveries(per_s, |_| 1.0);
            assert!(calm[180] <= 1, "{per_s}: {calm:?}");
            let down = recoveries(per_s, |second| if second < 20 { 0.0 } else { 1.0 });
            assert!((18..=21).contains(&down[100]), "{per_s}: {down:?}");
            assert!((18..=24).contains(&down[180]), "{per_s}: {down:?}");
            // 60 % of the usual rate is no recovery, even at the lowest rates.
            let slow = recoveries(per_s, |_| 0.6);
            let never = slow.iter().filter(|seconds| **seconds == 999).count();
            let least = if per_s < 10.0 { 150 } else { 200 };
            assert!(never >= least, "{per_s}: {slow:?}");
        }
    }

    #[test]
    fn low_rates_need_more_seconds() {
        let seconds_needed = |per_s| UsualRate::of(vec![per_s; 30]).seconds_needed();
        assert_eq!([5, 40, 200, 3000].map(seconds_needed), [60, 17, 3, 3]);
    }
}
