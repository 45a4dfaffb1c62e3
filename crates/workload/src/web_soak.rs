//! `web-soak`: the same load for hours or days. Does the server stay as fast, and does anything
//! fail or grow?
//!
//! After the Linux Technology Center's report of 10 February 2004: Apache 2.0.47, 30 virtual
//! clients of two threads each, 24 hours (also 96 hours, 7 and 14 days) on 8 CPUs. Linux
//! 2.6.0-test5 served 53.8 million pages, 2.4.18 8.8 million; CPU user to system 39:60 and 7:93;
//! mean 57.7 and 294.4 ms; no connection failed.

use anyhow::Result;
use load::traffic::Traffic;
use plan::Traits;
use plan::fields::Fields;
use record::curve::{Curve, Point};
use record::evidence::Usage;
use record::load::{LoadResult, Second};
use record::metric::{Direction, Figure};
use serde::{Deserialize, Serialize};

use crate::figures::{self, Seen, secondary};
use crate::options;
use crate::overview::{APACHE, DEADLINE, Key, Overview, RATE};
use crate::web::site_workload::SiteWorkload;
use crate::web::{self, Web};
use crate::web_static;
use crate::{Control, Driven, FromPlan, Kind};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "web-soak",
    |_| Traits::STATIC,
    Overview {
        summary: "static pages for hours or days, in a closed loop without pauses or at a rate",
        primary: "throughput",
        machine: &[],
        keys: &[
            APACHE,
            Key::new("connections", &["60"], "clients"),
            RATE,
            Key::new("warmup", &["\"2s\""], "load that is not counted"),
            Key::new(
                "window",
                &["\"10s\""],
                "load that is counted; \"24h\" with trial_limit = \"25h\" for a day",
            ),
            DEADLINE,
        ],
    },
);

/// Options of `web-static`, and a rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    #[serde(flatten)]
    pages: web_static::Options,
    /// `None` for a closed loop, and then left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_per_s: Option<u32>,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let rate_per_s = options::rate(fields);
        Some(Self {
            pages: web_static::Options::decided_by_throughput(fields)?,
            rate_per_s,
        })
    }
}

impl SiteWorkload for Options {
    fn web(&self) -> &Web {
        self.pages.web()
    }

    fn has_one_load(&self) -> bool {
        true
    }

    fn rate_per_s(&self) -> Option<u32> {
        self.rate_per_s
    }

    fn adapt(&self, traffic: &mut Traffic) -> Result<()> {
        traffic.schedule = options::schedule(self.rate_per_s);
        Ok(())
    }

    fn send(&self, traffic: Traffic, control: &mut Control<'_>) -> Result<Driven> {
        let mut driven = web::drive(&traffic, control)?;
        driven.curves = driven.load.iter().map(over_time).collect();
        Ok(driven)
    }

    /// The table of the report of 2004.
    fn conclude(&self, seen: &Seen<'_>, mut web: Vec<Figure>) -> Result<Vec<Figure>, String> {
        let load = figures::checked_load(seen)?;
        let usage = Usage::over(seen.samples);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let lower = |name, unit, value| secondary(name, unit, Direction::Lower, value);
        web.extend([
            secondary("pages", "requests", Direction::Higher, load.ok as f64),
            lower("unsuccessful", "requests", load.fault_count() as f64),
            lower("cpu-user", "share", usage.cpu_user),
            lower("cpu-system", "share", usage.cpu_system),
            lower("memory", "MiB", mib(usage.memory_used_bytes)),
            lower("swap", "MiB", mib(usage.swap_used_bytes)),
        ]);
        if let Some(share) = kept(&load.timeline) {
            web.push(secondary("kept", "share", Direction::Higher, share));
        }
        Ok(figures::at_rate(self.rate_per_s, web))
    }
}

/// Largest number of points of the curve, limited by the resolution of a screen.
const POINTS: u64 = 240;

/// Pages per second against the seconds since the window opened.
fn over_time(load: &LoadResult) -> Curve {
    let whole_ms = length_ms(&load.timeline);
    let step_ms = whole_ms.div_ceil(1000).div_ceil(POINTS).max(1) * 1000;
    let steps = load
        .timeline
        .chunk_by(|one, next| one.at_ms / step_ms == next.at_ms / step_ms);
    // An incomplete last step would look like a drop.
    let is_whole = |seconds: &&[Second]| {
        let begin_ms = seconds[0].at_ms / step_ms * step_ms;
        begin_ms + step_ms <= whole_ms
    };
    let points = steps.filter(is_whole).map(|seconds| Point {
        at: seconds[0].at_ms as f64 / 1e3,
        value: rate(seconds),
    });
    Curve {
        name: "throughput".into(),
        unit: "requests/s".into(),
        direction: Direction::Higher,
        axis: "s".into(),
        points: points.collect(),
    }
}

/// Throughput of the last quarter divided by that of the first; `None` for very short windows.
fn kept(timeline: &[Second]) -> Option<f64> {
    let whole_ms = length_ms(timeline);
    let quarter_ms = whole_ms / 4 / 1000 * 1000;
    if quarter_ms == 0 {
        return None;
    }
    let first = timeline.iter().take_while(|one| one.at_ms < quarter_ms);
    let rest_ms = whole_ms - quarter_ms;
    let last = timeline.iter().skip_while(|one| one.at_ms < rest_ms);
    let (first, last) = (rate(first), rate(last));
    (first > 0.0).then(|| last / first)
}

/// Length of all seconds together.
fn length_ms(timeline: &[Second]) -> u64 {
    timeline.iter().map(Second::length_ms).sum()
}

fn rate<'s>(seconds: impl IntoIterator<Item = &'s Second>) -> f64 {
    let (ok, length_s) = seconds
        .into_iter()
        .fold((0, 0.0), |(ok, length_s), second| {
            (ok + second.ok, length_s + second.length_s())
        });
    ok as f64 / length_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use crate::testing;

    fn timeline(rates: &[u64]) -> Vec<Second> {
        let seconds = rates.iter().zip(0..).map(|(ok, second)| Second {
            at_ms: second * 1000,
            ok: *ok,
            ..Second::default()
        });
        seconds.collect()
    }

    fn options(more: &str) -> Options {
        let text = format!(
            "kind = \"web-soak\"\nserver = \"apache\"\nconnections = 8\nwindow = \"24h\"\n{more}"
        );
        testing::options(&text).unwrap()
    }

    #[test]
    fn at_a_rate_there_is_no_ceiling() {
        let closed = options("");
        let open = options("rate = 40");
        assert_eq!((closed.rate_per_s, open.rate_per_s), (None, Some(40)));
        assert!(closed.has_ceiling() && !open.has_ceiling());
        assert!(closed.can_be_disturbed() && open.can_be_disturbed());
        let earlier = serde_json::to_value(&closed).unwrap();
        assert_eq!(earlier, serde_json::to_value(&closed.pages).unwrap());
    }

    #[test]
    fn a_server_that_slows_down_is_detected() {
        let tired = timeline(&[100, 100, 90, 80, 70, 60, 50, 50]);
        assert_eq!(kept(&tired), Some(0.5));
        assert_eq!(kept(&timeline(&[1, 2, 3])), None);
    }

    #[test]
    fn a_day_has_a_limited_number_of_points() {
        let load = LoadResult {
            timeline: timeline(&vec![7; 86_400]),
            ..LoadResult::default()
        };
        let curve = over_time(&load);
        assert_eq!(curve.points.len() as u64, POINTS);
        let mut points = curve.points.iter();
        assert!(points.all(|point| (point.value - 7.0).abs() < 1e-9));
    }
}
