//! Throughput, failures and latency of one attempt, second by second.

use crate::load::Second;
use crate::thinned::{MOST_POINTS, Point as _};

/// A second of load. In a long trial, older seconds are joined (`thinned`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its beginning, in seconds since the window opened.
    pub at_s: f64,
    /// Its length in seconds.
    pub length_s: f64,
    /// Requests with the expected response.
    pub ok: u64,
    /// Requests that failed.
    pub faults: u64,
    /// 99th percentile of their latency, in milliseconds; `None` without a response.
    pub p99_ms: Option<f64>,
}

impl Point {
    /// Requests with the expected response per second.
    pub fn ok_per_s(&self) -> f64 {
        self.ok as f64 / self.length_s.max(1e-3)
    }

    /// Its end, in seconds since the window opened.
    pub fn end_s(&self) -> f64 {
        self.at_s + self.length_s
    }
}

impl From<&Second> for Point {
    fn from(second: &Second) -> Self {
        let p99_ms = (!second.latency.is_empty())
            .then(|| second.latency.unpack().quantile_ns(0.99) as f64 / 1e6);
        Self {
            at_s: second.at_ms as f64 / 1e3,
            length_s: second.length_s(),
            ok: second.ok,
            faults: second.faults,
            p99_ms,
        }
    }
}

/// The clients' timeline of one attempt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    points: Vec<Point>,
    /// The last second, of which another part may follow.
    last: Option<Second>,
}

impl Curve {
    /// The curve of a trial that has ended.
    pub fn of(timeline: &[Second]) -> Self {
        Self {
            points: timeline.iter().map(Point::from).collect(),
            last: None,
        }
    }

    /// Adds a second. A late one is left out; the record will have it.
    pub(crate) fn push(&mut self, second: Second) {
        match &mut self.last {
            Some(last) if last.at_ms == second.at_ms => {
                last.add(&second);
                self.points.pop();
                self.points.push(Point::from(&*last));
            }
            Some(last) if second.at_ms < last.at_ms => {}
            _ => {
                // The file is rewritten before it has twice the points of a thinned series, so a longer one is not bakeoff's.
                if self.points.len() < 2 * MOST_POINTS {
                    self.points.push(Point::from(&second));
                    self.last = Some(second);
                }
            }
        }
    }

    /// All points, ordered by time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The last complete second: while the attempt runs, the one before the last; or the only one.
    pub fn newest(&self) -> Option<&Point> {
        match &self.points[..] {
            [.., complete, _] if self.last.is_some() => Some(complete),
            points => points.last(),
        }
    }

    /// Failed requests so far.
    pub fn faults(&self) -> u64 {
        let faults = self.points.iter().map(|point| point.faults);
        faults.fold(0, u64::saturating_add)
    }

    /// End of its last point, in seconds since the window opened.
    pub fn seen_s(&self) -> f64 {
        self.points.last().map_or(0.0, Point::end_s)
    }
}

#[cfg(test)]
mod tests {
    use base::latency::Latency;

    use super::*;

    fn second(at_ms: u64, ok: u64, latency_ms: u64) -> Second {
        let mut latency = Latency::coarse();
        (0..ok).for_each(|_| latency.record(latency_ms * 1_000_000));
        Second {
            at_ms,
            ok,
            faults: 1,
            latency: latency.pack(),
            ..Second::default()
        }
    }

    #[test]
    fn parts_of_a_second_become_one_point_with_the_quantile_of_both() {
        let mut curve = Curve::default();
        for part in [second(0, 10, 1), second(0, 10, 50), second(1000, 4, 2)] {
            curve.push(part);
        }
        let seen: Vec<(f64, u64, u64)> = curve
            .points()
            .iter()
            .map(|point| (point.at_s, point.ok, point.faults))
            .collect();
        assert_eq!(seen, [(0.0, 20, 2), (1.0, 4, 1)]);
        let p99_ms = curve.points()[0].p99_ms.unwrap();
        assert!((49.0..52.0).contains(&p99_ms), "{p99_ms}");
        assert_eq!((curve.faults(), curve.seen_s()), (3, 2.0));
    }

    #[test]
    fn the_newest_second_is_a_complete_one() {
        let mut curve = Curve::default();
        assert_eq!(curve.newest(), None);
        curve.push(second(0, 10, 1));
        assert_eq!(curve.newest().unwrap().ok, 10);
        curve.push(second(1000, 3, 1));
        assert_eq!(curve.newest().unwrap().ok, 10);
        let ended = Curve::of(&[second(0, 10, 1), second(1000, 9, 1)]);
        assert_eq!(ended.newest().unwrap().ok, 9);
    }
}
