//! The chart of a trend: ratios with their intervals, by version or by night.

use record::night::{Trend, TrendPoint};

use super::Chart;
use super::axis::{ACROSS, Axis, Tick, UPWARDS, ratio_log};
use super::plot::{Hit, Layer, Plot, Stroke};
use crate::topics::night::tell;
use crate::words;
use crate::words::levels::in_words;

/// A trend has the colour of the first arm other than the baseline.
const PLACE: usize = 1;

/// Width of a letter of a label as a share of the chart's width.
const LETTER: f64 = 0.012;

/// `None` for fewer than two points.
pub(crate) fn trend(trend: &Trend, number: usize) -> Option<Chart> {
    if trend.points.len() < 2 {
        return None;
    }
    let ratios = trend.points.iter().flat_map(|point| {
        let ends = [Some(point.ratio), point.low, point.high];
        ends.into_iter().flatten()
    });
    let (low, high) = ratios.fold((1.0_f64, 1.0_f64), |(low, high), ratio| {
        (low.min(ratio), high.max(ratio))
    });
    // The axis has some space at both ends, and is linear.
    let space = ((high / low).ln() * 0.08).max(0.001);
    let (low, high) = (low * (-space).exp(), high * space.exp());
    let knee = ratio_log(low).abs().max(ratio_log(high).abs());
    let plot = Plot {
        x: labelled(trend),
        y: Axis::change(low, high, knee, UPWARDS),
        x_title: tell::trend_along(trend).into(),
        y_title: format!("change of {}", words::directed(&trend.spec)),
        margin: None,
        spans: Vec::new(),
        layers: layers(trend, low, high),
        keys: Vec::new(),
        hits: hits(trend),
    };
    let note = if trend.changes.is_empty() {
        ""
    } else {
        "; an upright line where its level changes"
    };
    Some(Chart {
        id: format!("trend-{number}"),
        label: format!("{}{note}", tell::trend_title(trend)),
        drawn: plot.draw(),
    })
}

/// Vertical lines from `low` to `high` at changes, behind the points with their intervals.
fn layers(trend: &Trend, low: f64, high: f64) -> Vec<Layer> {
    let (mut points, mut intervals) = (Vec::new(), Vec::new());
    for (index, point) in trend.points.iter().enumerate() {
        let at = index as f64;
        points.push((at, point.ratio));
        if let (Some(low), Some(high)) = (point.low, point.high) {
            intervals.push((at, low, point.ratio, high));
        }
    }
    let changes = trend.changes.iter().map(|change| {
        let at = f64::midpoint(change.before.into(), change.after.into());
        (at, low, high)
    });
    vec![
        Layer::Joints(changes.collect()),
        Layer::Intervals {
            place: PLACE,
            points: intervals,
        },
        Layer::Line {
            place: PLACE,
            points: points.clone(),
            stroke: Stroke::Arm,
        },
        Layer::Marks {
            place: PLACE,
            marks: points,
        },
    ]
}

fn hits(trend: &Trend) -> Vec<Hit> {
    let hit = |(index, point): (usize, &TrendPoint)| Hit {
        at: index as f64,
        text: format!(
            "{}: {} {}",
            point.label,
            words::large_change(point.ratio),
            in_words(&words::interval_of(point.low, point.high), point.confidence)
        ),
    };
    trend.points.iter().enumerate().map(hit).collect()
}

/// An axis with the points' labels, or with every few of them if there are many. The last point always has a label.
fn labelled(trend: &Trend) -> Axis {
    let count = trend.points.len();
    let mut axis = Axis::linear(-0.5, count as f64 - 0.5, ACROSS);
    let lengths = trend.points.iter().map(|point| point.label.chars().count());
    let width = LETTER * (lengths.max().unwrap_or(0) + 2) as f64;
    let stride = |share: f64| (width * count as f64 / share).ceil().max(1.0) as usize;
    let (stride, phone_stride) = (stride(1.0), stride(0.45));
    axis.ticks.clear();
    for (from_last, point) in trend.points.iter().rev().enumerate().step_by(stride) {
        axis.ticks.push(Tick {
            at: axis.at((count - 1 - from_last) as f64),
            text: point.label.clone(),
            is_extra: !from_last.is_multiple_of(phone_stride.next_multiple_of(stride)),
        });
    }
    axis.origin = None;
    axis
}
