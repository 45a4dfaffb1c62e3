//! Charts of a figure against the load, and against CPUs.

use record::rundir::Run;
use record::verdict::{ArmCurve, Scaling};

use super::axis::{ACROSS, Axis, UPWARDS, UPWARDS_LOG};
use super::figures::{Line, ends, hits, large};
use super::plot::{Key, Layer, Plot, Stroke};
use super::{Chart, disturbed, place};
use crate::topics::loads::tell;
use crate::topics::scaling::tell::family;

/// Above this ratio of the largest to the smallest value or load, an axis is logarithmic, so that small ones are legible.
const WIDE_VALUES: f64 = 30.0;
const WIDE_LOADS: f64 = 1000.0;

/// A figure against the load: a line for each arm, and a band from the lowest trial to the highest.
///
/// `None` if no arm was measured at two loads.
pub(crate) fn curve(run: &Run, family: &[ArmCurve], id: String) -> Option<Chart> {
    let curves: Vec<&ArmCurve> = family
        .iter()
        .filter(|curve| curve.typical.points.len() > 1)
        .collect();
    let curve = &curves.first()?.typical;
    let unit = large(tell::unit(family), highest_value(&curves));
    let lines: Vec<Line> = curves
        .iter()
        .map(|curve| line(place(run, &curve.arm), curve, unit.factor))
        .collect();
    let bands: Vec<Layer> = curves
        .iter()
        .filter_map(|curve| band(place(run, &curve.arm), curve, unit.factor))
        .collect();
    let loads = lines.iter().flat_map(|line| &line.points);
    let (least, most) = ends(loads.map(|point| point.0))?;
    let has_bands = !bands.is_empty();
    let mut plot = Plot {
        x: loads_axis(least, most),
        y: values_axis(&lines, &curves, unit.factor)?,
        x_title: tell::axis(curve).into(),
        y_title: format!("{}, {}", curve.name, unit.name),
        margin: None,
        spans: Vec::new(),
        layers: bands.into_iter().chain(with_marks(&lines)).collect(),
        keys: lines.iter().map(|line| line.key(true)).collect(),
        hits: hits(
            &lines,
            &format!("{} ", tell::axis(curve)),
            &format!(" {}", unit.name),
            tell::value,
        ),
    };
    if curve.is_over_time() {
        disturbed::mark(&mut plot, &run.plan, least, most);
    }
    let note = if has_bands { BANDS } else { "" };
    Some(Chart {
        id,
        label: format!("{}{note}", tell::title(family)),
        drawn: plot.draw(),
    })
}

const BANDS: &str = "; the bands go from the lowest trial to the highest";

/// A primary figure against CPUs: a line for each group in the colour of its first arm, and the fitted law, dotted.
pub(crate) fn cpus(run: &Run, groups: &[&Scaling], id: String) -> Option<Chart> {
    let first = groups.first()?;
    let family = family(groups);
    let curves: Vec<&ArmCurve> = family.iter().collect();
    let unit = large(tell::unit(&family), highest_value(&curves));
    let place = |group: &Scaling| place(run, &group.steps[0].arm);
    let lines: Vec<Line> = groups
        .iter()
        .map(|group| line(place(group), &group.curve, unit.factor))
        .collect();
    let bands = groups
        .iter()
        .filter_map(|group| band(place(group), &group.curve, unit.factor));
    let laws: Vec<Line> = groups
        .iter()
        .filter_map(|group| {
            let points = group.law.as_ref()?.line.iter();
            let points = points.map(|point| (point.at, point.value * unit.factor));
            Some(Line {
                place: place(group),
                name: format!("{}, law", group.curve.arm),
                points: points.collect(),
            })
        })
        .collect();
    let steps = groups.iter().flat_map(|group| &group.steps);
    let mut counts: Vec<u32> = steps.map(|step| step.cpus).collect();
    counts.sort_unstable();
    counts.dedup();
    let (fewest, most) = (f64::from(*counts.first()?), f64::from(*counts.last()?));
    let values = family.iter().flat_map(|curve| &curve.highest);
    let law_points = laws.iter().flat_map(|line| &line.points);
    let values = values.map(|value| value * unit.factor);
    let (_, highest) = ends(values.chain(law_points.map(|point| point.1)))?;
    let has_bands = family.iter().any(|curve| curve.trials > 1);
    let keys = lines.iter().map(|line| line.key(true));
    let law_keys = laws.iter().map(|law| Key {
        line: Some(Stroke::Thin),
        ..law.key(false)
    });
    let plot = Plot {
        x: Axis::labelled_at(fewest, most, &counts, ACROSS),
        y: Axis::linear(0.0, highest * 1.05, UPWARDS),
        x_title: "CPUs".into(),
        y_title: format!("{}, {}", first.curve.typical.name, unit.name),
        margin: None,
        spans: Vec::new(),
        layers: bands
            .chain(laws.iter().map(|law| law.layer(Stroke::Thin)))
            .chain(with_marks(&lines))
            .collect(),
        keys: keys.chain(law_keys).collect(),
        hits: hits(&lines, "CPUs ", &format!(" {}", unit.name), tell::value),
    };
    let mut label = tell::title(&family);
    if has_bands {
        label += BANDS;
    }
    if !laws.is_empty() {
        label += "; thin and dotted, the fitted law";
    }
    Some(Chart {
        id,
        label,
        drawn: plot.draw(),
    })
}

/// The median of the trials at each load.
fn line(place: usize, curve: &ArmCurve, factor: f64) -> Line {
    let points = curve.typical.points.iter();
    Line {
        place,
        name: curve.arm.clone(),
        points: points
            .map(|point| (point.at, point.value * factor))
            .collect(),
    }
}

/// Lines with a mark at each point, unless so many marks would hide the line.
fn with_marks(lines: &[Line]) -> Vec<Layer> {
    const MOST_MARKS: usize = 60;
    let mut layers = Vec::new();
    for line in lines {
        layers.push(line.layer(Stroke::Arm));
        if line.points.len() <= MOST_MARKS {
            layers.push(line.marks(0.0));
        }
    }
    layers
}

/// The area from the lowest trial to the highest; `None` for a single trial.
fn band(place: usize, curve: &ArmCurve, factor: f64) -> Option<Layer> {
    let ends = curve.lowest.iter().zip(&curve.highest);
    let points = curve.typical.points.iter().zip(ends);
    (curve.trials > 1).then(|| Layer::Band {
        place,
        points: points
            .map(|(point, (low, high))| (point.at, low * factor, high * factor))
            .collect(),
    })
}

fn highest_value(curves: &[&ArmCurve]) -> f64 {
    let values = curves.iter().flat_map(|curve| &curve.highest);
    values.copied().fold(0.0, f64::max)
}

fn loads_axis(least: f64, most: f64) -> Axis {
    if least > 0.0 && most > WIDE_LOADS * least {
        Axis::log(least, most, ACROSS)
    } else {
        Axis::linear(least, most, ACROSS)
    }
}

/// An axis for lines and bands: from zero, or logarithmic if small values would be hidden.
fn values_axis(lines: &[Line], curves: &[&ArmCurve], factor: f64) -> Option<Axis> {
    let typical = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.1);
    let (least, most) = ends(typical)?;
    let banded = curves.iter().filter(|curve| curve.trials > 1);
    let bands = banded.flat_map(|curve| curve.lowest.iter().chain(&curve.highest));
    let (low, high) = ends(bands.map(|value| value * factor).chain([least, most]))?;
    Some(if least > 0.0 && most > WIDE_VALUES * least {
        // A band may reach zero, which has no position on a logarithmic axis.
        let low = if low > 0.0 {
            low.max(least / 10.0)
        } else {
            least / 2.0
        };
        Axis::log(low / 1.1, high * 1.1, UPWARDS_LOG)
    } else {
        Axis::linear(low.min(0.0), high * 1.05, UPWARDS)
    })
}
