//! The seconds about a disturbance: what is usual, what was served while it lasted, when service was as before again.

use std::collections::BTreeMap;

use plan::PlannedDisturbance;

use super::{DisturbanceRecord, Effect, ServiceAround};
use crate::load::Second;

/// Undisturbed seconds before a disturbance that tell what is usual.
const USUAL_AT_MOST: usize = 30;

/// So long before a disturbance seconds are kept for that.
const BEFORE_MS: u64 = 30_000;

/// Longest time for which service is watched after a disturbance.
const AFTER_MS: u64 = 600_000;

/// Service is as before from a second on that has so much of the usual throughput ...
const USUAL_SHARE: f64 = 0.9;

/// ... and no more failures than any second before, as have as many seconds after it.
const USUAL_SECONDS: usize = 3;

/// Of arrivals at random so many standard deviations less are chance: one in fifty.
const CHANCE: f64 = 2.0;

/// Most seconds that are taken together.
const MOST_SECONDS: usize = 60;

/// The seconds of a load that lie about its disturbances; all others are let go, so that memory does not grow with the window.
#[derive(Debug, Clone, Default)]
pub struct SecondsAround {
    spans: Vec<(u64, u64)>,
    /// Successful and failed requests, by the beginning of the second.
    seconds: BTreeMap<u64, (u64, u64)>,
    /// End of the last second.
    end_ms: u64,
}

impl SecondsAround {
    /// For a schedule.
    pub fn new(planned: &[PlannedDisturbance]) -> Self {
        let mut spans: Vec<_> = planned.iter().flat_map(spans_of).collect();
        spans.sort_unstable();
        Self {
            spans,
            ..Self::default()
        }
    }

    /// Takes a second, or a part of one that came late.
    pub fn take(&mut self, second: &Second) {
        // Sums of seconds say nothing of a single one.
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

    /// Tells each record how service went on; records in the order of their beginning.
    pub fn tell(&self, records: &mut [DisturbanceRecord]) {
        // End of the last second whose failures are counted.
        let mut counted_ms = 0;
        // From the beginning of each until service was as before.
        let mut unusual = Vec::new();
        for record in records {
            if matches!(record.effect, Effect::Impossible { .. }) {
                continue;
            }
            let Some(mut service) = self.around((record.begin_ms, record.end_ms), &unusual) else {
                unusual.push((record.begin_ms, record.end_ms));
                continue;
            };
            let until = nearest(record.end_ms + service.at_least_ms());
            let until = until.max(nearest(record.end_ms));
            let first = nearest(record.begin_ms);
            let again = self
                .seconds
                .range(first..counted_ms.clamp(first, until.max(first)));
            let again: u64 = again.map(|(_, (_, failed))| failed).sum();
            service.counted_before = again.min(service.all_failed());
            counted_ms = counted_ms.max(until);
            unusual.push((record.begin_ms, until));
            record.service = Some(service);
        }
    }

    /// How service went on about what was done from one instant to another; nothing where no second was seen before or during it.
    /// Seconds in `unusual` tell nothing of what is usual, as those of the plan's disturbances do not.
    fn around(
        &self,
        (begin_ms, end_ms): (u64, u64),
        unusual: &[(u64, u64)],
    ) -> Option<ServiceAround> {
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
            .take(USUAL_AT_MOST)
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
        let normal = usual_rate.first_normal(&after, most_failed);
        let unusual = &after[..normal.unwrap_or(after.len())];
        Some(ServiceAround {
            before_per_s: usual,
            during_per_s: served as f64 / during.len() as f64,
            failed: during.iter().map(|(_, (_, failed))| failed).sum(),
            counted_before: 0,
            failed_after: unusual.iter().map(|(_, (_, failed))| failed).sum(),
            recovery_ms: normal.map(|place| after[place].0.saturating_sub(end_ms)),
            watched_ms: until.saturating_sub(end_ms),
        })
    }
}

/// The usual throughput, and how far seconds together may be below it by chance.
///
/// Requests that arrive at random come in Poisson's way: the sum of n seconds at u a second has the variance n u. u itself is the mean
/// of the middle half of m seconds before, whose variance is 1.2 u / m. At 40 requests a second one second says nothing of a tenth
/// less; 17 together do.
struct UsualRate {
    per_s: f64,
    seconds: f64,
}

/// Variance of the mean of the middle half, over that of the mean, for normal values.
const MIDDLE_HALF: f64 = 1.2;

impl UsualRate {
    /// Of the seconds before, of which there is one at least.
    fn of(mut before: Vec<u64>) -> Self {
        before.sort_unstable();
        let quarter = before.len() / 4;
        let middle = &before[quarter..before.len() - quarter];
        Self {
            per_s: middle.iter().sum::<u64>() as f64 / middle.len() as f64,
            seconds: before.len() as f64,
        }
    }

    /// By how much so many seconds together may be below by chance.
    fn chance(&self, seconds: f64) -> f64 {
        let of_usual = MIDDLE_HALF * seconds / self.seconds;
        CHANCE * (seconds * self.per_s * (1.0 + of_usual)).sqrt()
    }

    /// What so many seconds together must have at the least.
    fn least(&self, seconds: usize) -> f64 {
        let seconds = seconds as f64;
        let usual = seconds * self.per_s;
        usual - ((1.0 - USUAL_SHARE) * usual).max(self.chance(seconds))
    }

    /// So many seconds tell a tenth less from chance; `MOST_SECONDS` where no number does.
    fn seconds_that_tell(&self) -> usize {
        let tells = |seconds: &usize| {
            let seconds = *seconds as f64;
            self.chance(seconds) <= (1.0 - USUAL_SHARE) * seconds * self.per_s
        };
        (USUAL_SECONDS..MOST_SECONDS)
            .find(tells)
            .unwrap_or(MOST_SECONDS)
    }

    /// The first of these seconds from which service is as before: three of them alone, and as many together as tell a tenth less from
    /// chance, but no more than half of all.
    fn first_normal(&self, after: &[(u64, (u64, u64))], most_failed: u64) -> Option<usize> {
        let together = self.seconds_that_tell().min(after.len() / 2);
        let together = together.max(USUAL_SECONDS);
        let (one, all) = (self.least(1), self.least(together));
        let is_usual =
            |(_, (ok, failed)): &(u64, (u64, u64))| *ok as f64 >= one && *failed <= most_failed;
        let served =
            |some: &[(u64, (u64, u64))]| some.iter().map(|(_, (ok, _))| ok).sum::<u64>() as f64;
        after
            .windows(together)
            .position(|some| some[..USUAL_SECONDS].iter().all(is_usual) && served(some) >= all)
    }
}

/// A second belongs to what lies in it for the most part: it seldom begins or ends with one to the millisecond.
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

    /// 100 a second, but what `of` says.
    fn around(spans: &[(u64, u64)], of: impl Fn(u64) -> (u64, u64)) -> SecondsAround {
        let planned = |(at, end): &(u64, u64)| PlannedDisturbance {
            name: "loss".into(),
            kind: DisturbanceKind::LinkDown,
            at_ms: vec![at * 1000],
            length_ms: (end - at) * 1000,
        };
        let planned: Vec<_> = spans.iter().map(planned).collect();
        let mut seconds = SecondsAround::new(&planned);
        for second in 0..60 {
            let (ok, faults) = of(second);
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
    fn recovery_is_the_time_until_three_usual_seconds() {
        // Down from 10 to 15, then slow for four seconds, one of which looks usual.
        let seconds = around(&[(10, 15)], |second| match second {
            10..15 => (0, 7),
            15 | 17 | 18 => (50, 1),
            _ => (100, 0),
        });
        let service = seconds.around((10_000, 15_000), &[]).unwrap();
        assert_eq!(service.recovery_ms, Some(4000));
        assert_eq!((service.failed, service.failed_after), (35, 3));
        is_about(service.during_per_s, 0.0);
        is_about(service.before_per_s, 100.0);
        assert_eq!(service.watched_ms, 45_000);
        assert_eq!(service.at_least_ms(), 4000);
    }

    #[test]
    fn service_that_never_stopped_needs_no_time() {
        let seconds = around(&[(10, 15)], |_| (100, 0));
        let service = seconds.around((10_003, 15_004), &[]).unwrap();
        assert_eq!((service.recovery_ms, service.all_failed()), (Some(0), 0));
        is_about(service.during_per_s, 100.0);
    }

    #[test]
    fn what_never_recovers_is_known_for_as_long_as_it_was_watched() {
        let seconds = around(&[(10, 15), (20, 25)], |second| match second {
            0..10 => (100, 0),
            _ => (10, 0),
        });
        let mut records = [record(10_000, 15_000), record(20_000, 25_000)];
        seconds.tell(&mut records);
        let [first, second] = records.map(|one| one.service.unwrap());
        assert_eq!((first.recovery_ms, first.watched_ms), (None, 5000));
        assert_eq!(first.at_least_ms(), 5000);
        // What came between them is what the first one left.
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

    /// The second in which a cable is back has failures too, and it catches up: it is not what is usual for the next.
    #[test]
    fn what_a_disturbance_left_is_not_usual_for_the_next() {
        let spans = [(10, 15), (18, 23), (26, 31)];
        let seconds = around(&spans, |second| match second {
            10..15 | 18..23 | 26..31 => (0, 20),
            15 | 31 => (200, 11),
            23 => (200, 9),
            _ => (100, 0),
        });
        let mut records = spans.map(|(begin, end)| record(begin * 1000, end * 1000));
        seconds.tell(&mut records);
        for one in &records {
            let service = one.service.as_ref().unwrap();
            is_about(service.before_per_s, 100.0);
            // Two seconds between them are too few for it, the last one is followed by enough.
            let is_last = one.begin_ms == 26_000;
            assert_eq!(service.recovery_ms, is_last.then_some(1000), "{one:?}");
        }
        assert_eq!(planned_failures(&records), 331);
    }

    #[test]
    fn a_failure_is_laid_to_one_disturbance_only() {
        // One failure in each second; they overlap for three seconds. A second at 40 fails by itself.
        let seconds = around(&[(10, 15), (12, 20)], |second| match second {
            10..20 => (50, 1),
            40 => (50, 100),
            _ => (100, 0),
        });
        let mut records = [record(10_000, 15_000), record(12_000, 20_000)];
        seconds.tell(&mut records);
        let [first, second] = records.clone().map(|one| one.service.unwrap());
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
        let service = seconds.around((7_200_000, 7_220_000), &[]).unwrap();
        assert_eq!(service.recovery_ms, Some(0));
    }

    /// How many requests come in a second at such a rate (Knuth's way; beyond 100 a second the sum of parts).
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

    /// A disturbance of a second after 30 s, watched for 120 s; `share` is what a second after it has of the usual rate. Recovery in
    /// seconds of 200 such, in order; of what never recovered the time that it was watched and more.
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
            let service = seconds.around((30_000, 31_000), &[]).unwrap();
            all.push(service.recovery_ms.map_or(999, |ms| ms / 1000));
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn arrivals_at_random_are_no_late_recovery_and_slow_service_is_none() {
        for per_s in [5.0, 40.0, 200.0, 3000.0] {
            let calm = recoveries(per_s, |_| 1.0);
            assert!(calm[180] <= 1, "{per_s}: {calm:?}");
            let down = recoveries(per_s, |second| if second < 20 { 0.0 } else { 1.0 });
            assert!((18..=21).contains(&down[100]), "{per_s}: {down:?}");
            assert!((18..=24).contains(&down[180]), "{per_s}: {down:?}");
            // Three of five are not as before, also where chance is largest.
            let slow = recoveries(per_s, |_| 0.6);
            let never = slow.iter().filter(|one| **one == 999).count();
            let least = if per_s < 10.0 { 150 } else { 200 };
            assert!(never >= least, "{per_s}: {slow:?}");
        }
    }

    #[test]
    fn so_many_seconds_tell_a_tenth_less() {
        let together = |per_s| UsualRate::of(vec![per_s; 30]).seconds_that_tell();
        assert_eq!([5, 40, 200, 3000].map(together), [60, 17, 3, 3]);
    }
}
