//! Charts of trials while they run: each arm's newest trial, by the second.

use base::input::units::significant;
use record::live::{ArmNow, Point, Snapshot};

use super::axis::{ACROSS, Axis, UPWARDS, UPWARDS_LOG};
use super::figures::{Line, ends, hits};
use super::plot::{Layer, Plot, Stroke};
use super::{Chart, disturbed};
use crate::topics::live::tell::rate;

/// Throughput of each arm's newest trial; `None` before the first second.
pub(crate) fn throughput_now(now: &Snapshot) -> Option<Chart> {
    let lines = lines(now, |point| Some(point.ok_per_s()));
    let (_, most) = ends(values(&lines))?;
    let mut plot = Plot {
        x: across(&lines)?,
        y: Axis::linear(0.0, (most * 1.05).max(1.0), UPWARDS),
        x_title: "seconds since the window opened".into(),
        y_title: "requests per second".into(),
        margin: None,
        spans: Vec::new(),
        layers: layers(&lines),
        keys: lines.iter().map(|line| line.key(false)).collect(),
        hits: hits(&lines, "second ", " requests/s", rate),
    };
    mark(&mut plot, now, &lines);
    Some(Chart {
        id: "throughput".into(),
        label: "Requests served per second, the newest trial of each arm".into(),
        drawn: plot.draw(),
    })
}

/// p99 latency of each arm's newest trial; `None` before the first second with an answer.
pub(crate) fn latency_now(now: &Snapshot) -> Option<Chart> {
    let lines = lines(now, |point| point.p99_ms.filter(|ms| *ms > 0.0));
    let (least, most) = ends(values(&lines))?;
    let mut plot = Plot {
        x: across(&lines)?,
        y: Axis::log(least / 1.1, most * 1.1, UPWARDS_LOG),
        x_title: "seconds since the window opened".into(),
        y_title: "99 % answered within, ms".into(),
        margin: None,
        spans: Vec::new(),
        layers: layers(&lines),
        keys: lines.iter().map(|line| line.key(false)).collect(),
        hits: hits(&lines, "second ", " ms", |ms| significant(ms, 3)),
    };
    mark(&mut plot, now, &lines);
    Some(Chart {
        id: "latency".into(),
        label: "p99 latency, the newest trial of each arm".into(),
        drawn: plot.draw(),
    })
}

/// Marks disturbances that have begun by the last second.
fn mark(plot: &mut Plot, now: &Snapshot, lines: &[Line]) {
    let points = lines.iter().flat_map(|line| &line.points);
    if let (Some(plan), Some((first_s, last_s))) = (&now.plan, ends(points.map(|point| point.0))) {
        disturbed::mark(plot, plan, first_s, last_s);
    }
}

/// A line of complete seconds for each arm; seconds without a value, such as the latency in an outage, are gaps.
fn lines(now: &Snapshot, value: impl Fn(&Point) -> Option<f64>) -> Vec<Line> {
    let line = |arm: &ArmNow| Line {
        place: arm.place,
        name: arm.attempt.trial.arm.clone(),
        points: points(complete(arm), &value),
    };
    let lines = now.arms.iter().map(line);
    let has_value = |line: &Line| line.points.iter().any(|point| !point.1.is_nan());
    lines.filter(has_value).collect()
}

/// The values at the begin of each second. A single second has its value at its end too, because one point is no line.
fn points(seconds: &[Point], value: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let value = |second: &Point| value(second).unwrap_or(f64::NAN);
    match seconds {
        [only] => vec![(only.at_s, value(only)), (only.end_s(), value(only))],
        all => all
            .iter()
            .map(|second| (second.at_s, value(second)))
            .collect(),
    }
}

/// Without the last second of a running trial, which may be incomplete.
fn complete(arm: &ArmNow) -> &[Point] {
    match (arm.activity, arm.curve.points()) {
        (Some(_), [complete @ .., _]) if !complete.is_empty() => complete,
        (_, all) => all,
    }
}

fn layers(lines: &[Line]) -> Vec<Layer> {
    lines.iter().map(|line| line.layer(Stroke::Arm)).collect()
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.1)
}

/// From the begin of the window to the last second, so that a growing curve always fills the chart.
fn across(lines: &[Line]) -> Option<Axis> {
    let points = lines.iter().flat_map(|line| &line.points);
    let (first, last) = ends(points.map(|point| point.0))?;
    // A single second would have no width.
    let last = last.max(first + 1.0);
    Some(Axis::whole(first.min(0.0), last, ACROSS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_one_second_has_a_line() {
        let second = |at_s| Point {
            at_s,
            length_s: 1.0,
            ok: 20,
            faults: 0,
            p99_ms: None,
        };
        let rate = |point: &Point| Some(point.ok_per_s());
        assert_eq!(points(&[second(0.0)], rate), [(0.0, 20.0), (1.0, 20.0)]);
        let two = [second(0.0), second(1.0)];
        assert_eq!(points(&two, rate), [(0.0, 20.0), (1.0, 20.0)]);
        assert!(points(&[second(0.0)], |point| point.p99_ms)[0].1.is_nan());
    }
}
