//! Charts of figures: block by block, over time, and by latency quantile.

use base::input::units::significant;
use record::rundir::Run;
use record::verdict::{ArmClients, ArmSummary, Comparison};

use super::axis::{ACROSS, Axis, UPWARDS, UPWARDS_LOG};
use super::plot::{Hit, Key, Layer, Plot, Stroke};
use super::{Chart, disturbed, offset, place};
use crate::topics::glance::tell::unit as page_unit;
use crate::topics::loads::tell::{Unit, load};
use crate::words;

/// Requests served per second over the window.
pub(crate) fn over_time(run: &Run, tables: &[&ArmSummary], number: usize) -> Option<Chart> {
    let lines = lines(run, tables, |clients| clients.over_time.clone());
    let points = || lines.iter().flat_map(|line| &line.points);
    let (first, last) = ends(points().map(|point| point.0))?;
    let (_, most) = ends(points().map(|point| point.1))?;
    let mut plot = Plot {
        x: Axis::whole(first, last, ACROSS),
        y: Axis::linear(0.0, most * 1.05, UPWARDS),
        x_title: format!("time since the window opened, {}", page_unit(run, "s")),
        y_title: format!("requests served, {}", page_unit(run, "requests/s")),
        margin: None,
        spans: Vec::new(),
        layers: lines.iter().map(|line| line.layer(Stroke::Arm)).collect(),
        keys: lines.iter().map(|line| line.key(false)).collect(),
        hits: hits(&lines, "second ", " requests/s", words::figure),
    };
    disturbed::mark(&mut plot, &run.plan, first, last);
    Some(Chart {
        id: format!("time-{number}"),
        label: "Requests served per second over the window, mean over trials".into(),
        drawn: plot.draw(),
    })
}

/// The primary metric of each block, with a line that joins baseline and arm.
pub(crate) fn blocks(run: &Run, comparisons: &[&Comparison], number: usize) -> Option<Chart> {
    let primaries: Vec<&Comparison> = words::primaries(comparisons.iter().copied()).collect();
    let spec = &primaries.first()?.spec;
    let pairs = || primaries.iter().flat_map(|comparison| &comparison.pairs);
    let (least, most) = ends(pairs().flat_map(|pair| [pair.baseline, pair.arm]))?;
    let unit = large(Unit::fit(&spec.unit, most), most);
    let mut lines = Vec::new();
    for (place, arm) in run.plan.arms.iter().enumerate() {
        let is_baseline = arm.name == run.plan.baseline;
        let mut points = Vec::new();
        for comparison in &primaries {
            if is_baseline || comparison.arm == arm.name {
                points.extend(comparison.pairs.iter().map(|pair| {
                    let figure = if is_baseline { pair.baseline } else { pair.arm };
                    (f64::from(pair.block), figure * unit.factor)
                }));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup();
        if !points.is_empty() {
            lines.push(Line {
                place,
                name: arm.name.clone(),
                points,
            });
        }
    }
    let mut joints = Vec::new();
    for comparison in &primaries {
        let offset = offset(run, &comparison.arm);
        joints.extend(comparison.pairs.iter().map(|pair| {
            let x = f64::from(pair.block) + offset;
            (x, pair.baseline * unit.factor, pair.arm * unit.factor)
        }));
    }
    let (first, end) = ends(pairs().map(|pair| f64::from(pair.block)))?;
    let (low, high) = (least * unit.factor, most * unit.factor);
    let marks = lines.iter().map(|line| line.marks(offset(run, &line.name)));
    let plot = Plot {
        x: Axis::whole(first - 0.5, end + 0.5, ACROSS),
        y: figures_axis(low, high),
        x_title: "block".into(),
        y_title: format!("{}, {}", words::directed(spec), page_unit(run, &unit.name)),
        margin: None,
        spans: Vec::new(),
        layers: [Layer::Joints(joints)].into_iter().chain(marks).collect(),
        keys: lines
            .iter()
            .map(|line| Key {
                line: None,
                ..line.key(true)
            })
            .collect(),
        hits: hits(&lines, "block ", &format!(" {}", unit.name), words::figure),
    };
    Some(Chart {
        id: format!("blocks-{number}"),
        label: format!("Every block's {}, the arms of a block joined", spec.name),
        drawn: plot.draw(),
    })
}

/// Labels of quantiles at `1 / (1 - quantile)`, the most important first.
const NINES: [(f64, &str); 9] = [
    (2.0, "50 %"),
    (100.0, "99 %"),
    (10.0, "90 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
    (1e6, "99.9999 %"),
    (1.0, "0"),
    (4.0, "75 %"),
];

/// Latency quantiles on an axis on which each further nine has the same width.
pub(crate) fn latency(run: &Run, tables: &[&ArmSummary], number: usize) -> Option<Chart> {
    // The maximum, at quantile 1, is at infinity of the axis.
    let below_one = |clients: &ArmClients| {
        let curve = clients.latency_curve.iter();
        let curve = curve.filter(|(quantile, ms)| *quantile < 1.0 && *ms > 0.0);
        curve
            .map(|(quantile, ms)| (1.0 / (1.0 - quantile), *ms))
            .collect()
    };
    let lines = lines(run, tables, below_one);
    let points = || lines.iter().flat_map(|line| &line.points);
    let (least, most) = ends(points().map(|point| point.1))?;
    let (first, end) = ends(points().map(|point| point.0))?;
    let ms = page_unit(run, "ms");
    let plot = Plot {
        x: Axis::log_labelled(first, end, &NINES, ACROSS),
        y: Axis::log(least / 1.1, most * 1.1, UPWARDS_LOG),
        x_title: "share of requests".into(),
        y_title: format!("answered within, {ms}"),
        margin: None,
        spans: Vec::new(),
        layers: lines.iter().map(|line| line.layer(Stroke::Steps)).collect(),
        keys: lines.iter().map(|line| line.key(false)).collect(),
        hits: quantile_hits(&lines, end, &ms),
    };
    Some(Chart {
        id: format!("latency-{number}"),
        label: "Latency quantiles, all trials".into(),
        drawn: plot.draw(),
    })
}

/// Tooltips at quantiles whose distance to 1 decreases by a factor of the square root of two.
fn quantile_hits(lines: &[Line], last: f64, ms_word: &str) -> Vec<Hit> {
    let quantiles = (0..=80).map(|half| 2f64.powf(f64::from(half) / 2.0));
    let hit = |at: f64| {
        let share = significant((1.0 - 1.0 / at) * 100.0, 6);
        let mut text = vec![format!("{share} % within")];
        for Line { name, points, .. } in lines {
            if let Some((_, ms)) = points.iter().find(|point| point.0 >= at * (1.0 - 1e-9)) {
                text.push(format!("{name}: {} {ms_word}", words::figure(*ms)));
            }
        }
        let text = text.join("\n");
        Hit { at, text }
    };
    quantiles.take_while(|at| *at <= last).map(hit).collect()
}

/// One arm's points; NaN values are gaps.
pub(crate) struct Line {
    pub(crate) place: usize,
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Line {
    pub(crate) fn layer(&self, stroke: Stroke) -> Layer {
        Layer::Line {
            place: self.place,
            points: self.points.clone(),
            stroke,
        }
    }

    /// A mark at each point, moved horizontally by `offset`.
    pub(crate) fn marks(&self, offset: f64) -> Layer {
        let points = self.points.iter();
        Layer::Marks {
            place: self.place,
            marks: points.map(|point| (point.0 + offset, point.1)).collect(),
        }
    }

    pub(crate) fn key(&self, has_mark: bool) -> Key {
        Key {
            place: self.place,
            text: self.name.clone(),
            line: Some(Stroke::Arm),
            has_mark,
        }
    }
}

/// A line for each arm whose clients have more than one point.
fn lines(
    run: &Run,
    tables: &[&ArmSummary],
    points: impl Fn(&ArmClients) -> Vec<(f64, f64)>,
) -> Vec<Line> {
    let lines = tables.iter().filter_map(|table| {
        Some(Line {
            place: place(run, &table.arm),
            name: table.arm.clone(),
            points: points(table.clients.as_ref()?),
        })
    });
    lines.filter(|line| line.points.len() > 1).collect()
}

/// Tooltips at all points' positions: `lead` and the position, then a line with each arm's value.
pub(crate) fn hits(
    lines: &[Line],
    lead: &str,
    unit: &str,
    value: impl Fn(f64) -> String,
) -> Vec<Hit> {
    let mut positions: Vec<f64> = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.0)
        .collect();
    positions.sort_by(f64::total_cmp);
    positions.dedup();
    let hit = |at: f64| {
        let mut text = vec![format!("{lead}{}", load(at))];
        for Line { name, points, .. } in lines {
            if let Ok(index) = points.binary_search_by(|point| point.0.total_cmp(&at))
                && !points[index].1.is_nan()
            {
                text.push(format!("{name}: {}{unit}", value(points[index].1)));
            }
        }
        let text = text.join("\n");
        Hit { at, text }
    };
    positions.into_iter().map(hit).collect()
}

/// The lowest and the highest value, without gaps; `None` without values.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .filter(|value| !value.is_nan())
        .fold(None, |ends, value| match ends {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        })
}

/// A unit with a power of ten if `most`, given in the record's unit, has too many digits for an axis.
pub(crate) fn large(unit: Unit, most: f64) -> Unit {
    let powers = [(1e13, 1e-9, "10⁹ "), (1e7, 1e-6, "10⁶ ")];
    let shown = most.abs() * unit.factor;
    match powers.into_iter().find(|(from, ..)| shown >= *from) {
        Some((_, factor, power)) => Unit {
            name: format!("{power}{}", unit.name),
            factor: unit.factor * factor,
        },
        None => unit,
    }
}

/// An axis of single figures, which need not begin at zero; logarithmic if they are far apart.
fn figures_axis(low: f64, high: f64) -> Axis {
    const FAR: f64 = 5.0;
    if low > 0.0 && high > FAR * low {
        return Axis::log(low / 1.1, high * 1.1, UPWARDS_LOG);
    }
    let space = (high - low) * 0.08;
    Axis::linear(low - space, high + space, UPWARDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::{estimate_history, verdicts};
    use crate::report::judged;
    use record::fixtures::web;

    #[test]
    fn arms_of_a_block_are_joined() {
        let (run, judgement) = judged(web::two_kernels());
        let comparisons: Vec<_> = judgement.comparisons.iter().collect();
        let drawn = blocks(&run, &comparisons, 0).unwrap().drawn.into_string();
        let pairs = judgement.comparisons[0].pairs.len();
        assert_eq!(drawn.matches("class=\"joint\"").count(), pairs);
        for mark in ["#mark-0", "#mark-1"] {
            let with_key = pairs + 1;
            assert_eq!(drawn.matches(&format!("href=\"{mark}\"")).count(), with_key);
        }
        assert!(drawn.contains("<title>block 1\n6.1: 2\u{a0}285.0 requests/s\n7.2: 2\u{a0}451.0"));
    }

    #[test]
    fn an_outlier_is_drawn_on_a_logarithmic_axis() {
        let tick = |low, high| figures_axis(low, high).at(2.0 * low);
        assert!(tick(100.0, 50_000.0) > 0.1 && tick(100.0, 220.0) > 0.7);
        assert!(figures_axis(-1.0, 5.0).at(0.0) > 0.0, "no logarithm of -1");
    }

    #[test]
    fn large_figures_have_few_digits_beside_an_axis() {
        let shown = |unit: &str, most: f64| large(Unit::fit(unit, most), most).name;
        assert_eq!(shown("instructions", 161_472.0), "instructions");
        assert_eq!(shown("instructions", 3.2e8), "10⁶ instructions");
        assert_eq!(shown("us", 4_523.0), "µs");
    }

    #[test]
    fn a_workload_without_figures_has_no_charts() {
        let (run, _) = judged(web::two_kernels());
        assert!(verdicts(&run, &[], 0).is_none() && blocks(&run, &[], 0).is_none());
        assert!(estimate_history(&run, &[], 0).is_none());
        assert!(over_time(&run, &[], 0).is_none() && latency(&run, &[], 0).is_none());
    }
}
