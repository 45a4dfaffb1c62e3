//! The chart of a trend: ratios with their intervals, version by version or night by night.

use record::night::{Trend, TrendPoint};

use super::Chart;
use super::axis::{ACROSS, Axis, Tick, UPWARDS, ratio_log};
use super::plot::{Hit, Layer, Plot, Stroke};
use crate::topics::night::tell as night;
use crate::words;
use crate::words::levels::in_words;

/// The colour of a trend: that of an arm beside the baseline.
const PLACE: usize = 1;

/// Columns of the drawing that one letter of a label takes, as a share of its width.
const LETTER: f64 = 0.012;

/// `None` of fewer than two points.
pub(crate) fn trend(trend: &Trend, number: usize) -> Option<Chart> {
    if trend.points.len() < 2 {
        return None;
    }
    let ends = trend
        .points
        .iter()
        .flat_map(|one| [Some(one.ratio), one.low, one.high].into_iter().flatten());
    let (low, high) = ends.fold((1.0_f64, 1.0_f64), |(low, high), ratio| {
        (low.min(ratio), high.max(ratio))
    });
    // Some room above and below, and an even axis: a trend is of one metric.
    let room = ((high / low).ln() * 0.08).max(0.001);
    let (low, high) = (low * (-room).exp(), high * room.exp());
    let knee = ratio_log(low).abs().max(ratio_log(high).abs());
    let plot = Plot {
        x: labelled(trend),
        y: Axis::change(low, high, knee, UPWARDS),
        x_title: night::trend_along(trend).into(),
        y_title: format!("change of {}", words::directed(&trend.spec)),
        margin: None,
        spans: Vec::new(),
        layers: layers(trend, (low, high)),
        keys: Vec::new(),
        hits: hits(trend),
    };
    let marked = if trend.changes.is_empty() {
        ""
    } else {
        "; an upright line where its level changes"
    };
    Some(Chart {
        id: format!("trend-{number}"),
        label: format!("{}{marked}", night::trend_title(trend)),
        drawn: plot.draw(),
    })
}

/// Upright lines at changes, behind the points with their intervals.
fn layers(trend: &Trend, (low, high): (f64, f64)) -> Vec<Layer> {
    let all = || {
        let points = trend.points.iter().enumerate();
        points.map(|(place, one)| (place as f64, one))
    };
    let points: Vec<(f64, f64)> = all().map(|(at, one)| (at, one.ratio)).collect();
    let intervals = all().filter_map(|(at, one)| Some((at, one.low?, one.ratio, one.high?)));
    let changes = trend.changes.iter();
    let changes = changes.map(|one| {
        (
            f64::midpoint(one.before.into(), one.after.into()),
            low,
            high,
        )
    });
    vec![
        Layer::Joints(changes.collect()),
        Layer::Intervals {
            place: PLACE,
            points: intervals.collect(),
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
    let hit = |(place, one): (usize, &TrendPoint)| Hit {
        at: place as f64,
        text: format!(
            "{}: {} {}",
            one.label,
            words::large_change(one.ratio),
            in_words(&words::interval_of(one.low, one.high), one.confidence)
        ),
    };
    trend.points.iter().enumerate().map(hit).collect()
}

/// An axis whose places have names: all of them, or of many every few, the last one among them.
fn labelled(trend: &Trend) -> Axis {
    let count = trend.points.len();
    let mut axis = Axis::linear(-0.5, count as f64 - 0.5, ACROSS);
    let longest = trend.points.iter().map(|one| one.label.chars().count());
    let width = LETTER * (longest.max().unwrap_or(0) + 2) as f64;
    let every = |share: f64| (width * count as f64 / share).ceil().max(1.0) as usize;
    let (stride, on_phone) = (every(1.0), every(0.45));
    let names = trend.points.iter().enumerate().rev();
    let names = names.filter(|(place, _)| (count - 1 - place).is_multiple_of(stride));
    axis.ticks = names
        .map(|(place, one)| Tick {
            at: axis.at(place as f64),
            text: one.label.clone(),
            is_extra: !(count - 1 - place).is_multiple_of(on_phone.next_multiple_of(stride)),
        })
        .collect();
    axis.origin = None;
    axis
}
