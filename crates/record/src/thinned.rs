//! A time series of bounded size: older points are joined into minutes, then into ten minutes, with sums and extremes.
//!
//! ```text
//! older than a day     older than an hour    the last hour
//! [10 min][10 min] ... [min][min][min] ...   [s][s][s][s] ... <- push
//! ```
//! Groups begin at multiples of their length. 14 days of seconds are about 6,900 points.

use std::collections::VecDeque;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Points older than this are joined into minutes.
const FINE_MS: i64 = HOUR_MS;

/// Minutes older than this are joined into ten minutes.
const MINUTES_MS: i64 = DAY_MS;

/// Most points of the last hour, whatever their times.
const FINE_POINTS: usize = 10_000;

/// Most points older than a day: thirty days of ten minutes. Beyond that, steps double to twenty minutes, to forty, and so on.
const OLD_POINTS: usize = 30 * 144;

/// Most points of any series. Points between an hour and a day old are minutes, and 24 hours have 1,440.
pub const MOST_POINTS: usize = FINE_POINTS + 1_500 + OLD_POINTS + 2;

/// A point of a series that can be thinned.
pub trait Point: Clone {
    /// Whether points with the same time are parts of a single point.
    const HAS_PARTS: bool;

    /// Its time in milliseconds since the window opened, which decides its group.
    fn time_ms(&self) -> i64;

    /// Joins consecutive points, at least one: sums are exact, extremes are kept.
    fn join(group: &[Self]) -> Self;

    /// Adds a part of the same time that was counted elsewhere or came late.
    fn add(&mut self, part: &Self);
}

/// The series.
#[derive(Debug, Clone, PartialEq)]
pub struct Thinned<T> {
    /// Older than a day, in steps of `step_ms`.
    old: Vec<T>,
    step_ms: i64,
    /// Older than an hour, in steps of a minute.
    minutes: VecDeque<T>,
    /// Of the last hour, as pushed.
    fine: VecDeque<T>,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self {
            old: Vec::new(),
            step_ms: 10 * MINUTE_MS,
            minutes: VecDeque::new(),
            fine: VecDeque::new(),
        }
    }
}

impl<T: Point> Thinned<T> {
    /// Appends a point. A late one is added to the point that covers its time.
    pub fn push(&mut self, point: T) {
        let newest_ms = self.newest_ms().unwrap_or(i64::MIN);
        match self.fine.back_mut() {
            Some(last) if T::HAS_PARTS && last.time_ms() == point.time_ms() => last.add(&point),
            _ if point.time_ms() < newest_ms => self.add_late(&point),
            _ => self.fine.push_back(point),
        }
        self.age();
    }

    /// All points in the order of their times.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.old.iter().chain(&self.minutes).chain(&self.fine)
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.old.len() + self.minutes.len() + self.fine.len()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All points in the order of their times.
    pub fn into_vec(self) -> Vec<T> {
        let mut all = self.old;
        all.extend(self.minutes);
        all.extend(self.fine);
        all
    }

    /// Removes the points from an instant on.
    pub fn forget_from(&mut self, until_ms: i64) {
        let is_before = |point: &T| point.time_ms() < until_ms;
        self.fine.truncate(self.fine.partition_point(is_before));
        self.minutes
            .truncate(self.minutes.partition_point(is_before));
        self.old.truncate(self.old.partition_point(is_before));
    }

    fn newest_ms(&self) -> Option<i64> {
        let newest = self.fine.back().or(self.minutes.back()).or(self.old.last());
        newest.map(T::time_ms)
    }

    /// Adds a late point to the last point that begins no later, or to the first point if all begin later.
    fn add_late(&mut self, late: &T) {
        let begins_before = |point: &T| point.time_ms() <= late.time_ms();
        let target = if self.fine.front().is_some_and(begins_before) {
            let after = self.fine.partition_point(begins_before);
            self.fine.get_mut(after - 1)
        } else if self.minutes.front().is_some_and(begins_before) {
            let after = self.minutes.partition_point(begins_before);
            self.minutes.get_mut(after - 1)
        } else if self.old.is_empty() {
            self.minutes.front_mut().or(self.fine.front_mut())
        } else {
            let after = self.old.partition_point(begins_before);
            self.old.get_mut(after.saturating_sub(1))
        };
        target.expect("there is a newer point").add(late);
    }

    /// Joins points that have become old enough.
    fn age(&mut self) {
        let Some(newest_ms) = self.newest_ms() else {
            return;
        };
        while let Some(group) =
            first_group(&mut self.fine, MINUTE_MS, newest_ms - FINE_MS, FINE_POINTS)
        {
            append(&mut self.minutes, group, MINUTE_MS);
            while let Some(group) = first_group(
                &mut self.minutes,
                self.step_ms,
                newest_ms - MINUTES_MS,
                usize::MAX,
            ) {
                self.append_old(group);
            }
        }
    }

    fn append_old(&mut self, point: T) {
        let step_ms = self.step_ms;
        match self.old.last_mut() {
            Some(last) if group_of(last, step_ms) == group_of(&point, step_ms) => {
                *last = T::join(&[last.clone(), point]);
            }
            _ => self.old.push(point),
        }
        if self.old.len() > OLD_POINTS {
            self.step_ms *= 2;
            let groups = self
                .old
                .chunk_by(|a, b| group_of(a, self.step_ms) == group_of(b, self.step_ms));
            self.old = groups.map(T::join).collect();
        }
    }
}

/// Removes the first group and returns it joined, if it ends before an instant or there are more than `most` points.
fn first_group<T: Point>(
    points: &mut VecDeque<T>,
    step_ms: i64,
    before_ms: i64,
    most: usize,
) -> Option<T> {
    let group = group_of(points.front()?, step_ms);
    if (group + 1) * step_ms > before_ms && points.len() <= most {
        return None;
    }
    let end = points
        .iter()
        .position(|point| group_of(point, step_ms) != group);
    let members: Vec<T> = points.drain(..end.unwrap_or(points.len())).collect();
    Some(T::join(&members))
}

fn append<T: Point>(points: &mut VecDeque<T>, point: T, step_ms: i64) {
    match points.back_mut() {
        Some(last) if group_of(last, step_ms) == group_of(&point, step_ms) => {
            *last = T::join(&[last.clone(), point]);
        }
        _ => points.push_back(point),
    }
}

fn group_of<T: Point>(point: &T, step_ms: i64) -> i64 {
    point.time_ms().div_euclid(step_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::SplitMix64;

    /// A count over some time, with its extremes.
    #[derive(Debug, Clone, PartialEq)]
    struct Count {
        at_ms: i64,
        length_ms: i64,
        sum: u64,
        least: u64,
        most: u64,
    }

    impl Point for Count {
        const HAS_PARTS: bool = true;

        fn time_ms(&self) -> i64 {
            self.at_ms
        }

        fn join(group: &[Self]) -> Self {
            Self {
                at_ms: group[0].at_ms,
                length_ms: group.iter().map(|count| count.length_ms).sum(),
                sum: group.iter().map(|count| count.sum).sum(),
                least: group.iter().map(|count| count.least).min().unwrap(),
                most: group.iter().map(|count| count.most).max().unwrap(),
            }
        }

        fn add(&mut self, part: &Self) {
            self.sum += part.sum;
            self.most = self.most.max(part.most);
        }
    }

    fn count(at_ms: i64, sum: u64) -> Count {
        Count {
            at_ms,
            length_ms: 1000,
            sum,
            least: sum,
            most: sum,
        }
    }

    /// Seconds of these counts.
    fn seconds(counts: impl Iterator<Item = u64>) -> Thinned<Count> {
        let mut series = Thinned::default();
        for (sum, second) in counts.zip(0..) {
            series.push(count(second * 1000, sum));
        }
        series
    }

    /// Sum, length, least, most.
    fn totals(series: &Thinned<Count>) -> (u64, i64, u64, u64) {
        (
            series.iter().map(|count| count.sum).sum(),
            series.iter().map(|count| count.length_ms).sum(),
            series.iter().map(|count| count.least).min().unwrap(),
            series.iter().map(|count| count.most).max().unwrap(),
        )
    }

    fn is_in_order(series: &Thinned<Count>) -> bool {
        series.iter().is_sorted_by_key(|count| count.at_ms)
    }

    #[test]
    fn the_last_hour_is_kept_by_seconds() {
        let series = seconds(0..3600);
        assert_eq!(series.len(), 3600);
        assert!(series.iter().all(|count| count.length_ms == 1000));
    }

    #[test]
    fn points_older_than_an_hour_are_joined_into_whole_minutes() {
        let series = seconds(0..2 * 3600);
        let (minutes, rest): (Vec<_>, Vec<_>) = series
            .iter()
            .partition(|count| count.length_ms == MINUTE_MS);
        assert_eq!((minutes.len(), rest.len()), (59, 7200 - 59 * 60));
        assert!(minutes.iter().all(|count| count.at_ms % MINUTE_MS == 0));
        assert_eq!((minutes[1].least, minutes[1].most), (60, 119));
        assert_eq!(minutes[1].sum, (60..120).sum::<u64>());
    }

    #[test]
    fn fourteen_days_take_seven_thousand_points_and_keep_totals() {
        let length = 14 * 86_400;
        let mut noise = SplitMix64::new(7);
        let counts: Vec<u64> = (0..length).map(|_| noise.bits() % 1000).collect();
        let series = seconds(counts.iter().copied());
        assert!((6_500..7_000).contains(&series.len()), "{}", series.len());
        let (least, most) = (counts.iter().min(), counts.iter().max());
        let expected = (
            counts.iter().sum(),
            i64::from(length) * 1000,
            *least.unwrap(),
            *most.unwrap(),
        );
        assert_eq!(totals(&series), expected);
        assert!(is_in_order(&series));
    }

    #[test]
    fn random_series_keep_sums_extremes_and_order_within_the_bound() {
        for seed in 0..40 {
            let mut random = SplitMix64::new(seed);
            let mut series = Thinned::default();
            let (mut sum, mut most, mut at_ms) = (0, 0, 0_i64);
            // From steps of a millisecond to steps of days.
            let longest_ms = 1_u64 << (seed % 30);
            for _ in 0..20_000 {
                let value = random.bits() % 1000;
                let is_late = random.bits().is_multiple_of(50);
                let back_ms = if is_late {
                    random.bits() % (1 << 30)
                } else {
                    0
                };
                at_ms += (random.bits() % longest_ms).cast_signed();
                series.push(count((at_ms - back_ms.cast_signed()).max(0), value));
                sum += value;
                most = most.max(value);
            }
            let (kept, _, _, largest) = totals(&series);
            assert_eq!((kept, largest), (sum, most), "seed {seed}");
            assert!(is_in_order(&series), "seed {seed}");
            assert!(series.len() <= MOST_POINTS, "seed {seed}: {}", series.len());
        }
    }

    #[test]
    fn years_stay_within_bounds() {
        let mut series = Thinned::default();
        for ten_minutes in 0..10 * 365 * 144 {
            series.push(count(ten_minutes * 600_000, 1));
        }
        assert!(series.len() <= OLD_POINTS + 200, "{}", series.len());
        assert_eq!(totals(&series).0, 10 * 365 * 144);
    }

    #[test]
    fn a_late_point_is_added_to_its_time() {
        let mut series = seconds(std::iter::repeat_n(0, 3 * 86_400));
        for at_ms in [0, 100_000_000, 200_000_000, 259_199_000] {
            series.push(count(at_ms, 5));
            let target = series
                .iter()
                .filter(|count| count.at_ms <= at_ms)
                .last()
                .unwrap();
            assert_eq!(target.sum, 5, "{at_ms}");
        }
        let before = series.len();
        series.push(count(50, 1));
        assert_eq!((series.len(), totals(&series).0), (before, 21));
    }

    #[test]
    fn parts_of_the_same_time_become_one_point() {
        let mut series = Thinned::default();
        for (at_ms, sum) in [(0, 1), (0, 2), (1000, 3), (0, 4)] {
            series.push(count(at_ms, sum));
        }
        let sums: Vec<u64> = series.iter().map(|count| count.sum).collect();
        assert_eq!(sums, [7, 3]);
    }

    #[test]
    fn a_series_can_be_cut_at_its_end() {
        let mut series = seconds(0..2 * 3600);
        series.forget_from(3_590_000);
        assert_eq!(series.iter().last().unwrap().at_ms, 3_589_000);
        series.forget_from(0);
        assert!(series.is_empty());
    }
}
