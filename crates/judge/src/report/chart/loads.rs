//! Charts of a figure against the load, and against CPUs.

use record::rundir::Run;
use record::verdict::{ArmCurve, Scaling};

use super::axis::{ACROSS, Axis, UPWARDS, UPWARDS_LOG};
use super::figures::{Line, ends, hits, large};
use super::plot::{Key, Layer, Plot, Stroke};
use super::{Chart, disturbed, place};
use crate::topics::loads::tell as curves;
use crate::topics::scaling::tell as scaling;

/// How far apart values lie before an axis is logarithmic: below, small ones can still be told from each other.
const WIDE_VALUES: f64 = 30.0;
const WIDE_LOADS: f64 = 1000.0;

/// A figure against the load: a line for each arm, and a band from the lowest trial to the highest. `None` where
/// no arm was measured at two loads.
pub(crate) fn curve(run: &Run, family: &[ArmCurve], id: String) -> Option<Chart> {
    let long = family.iter().filter(|one| one.typical.points.len() > 1);
    let long: Vec<&ArmCurve> = long.collect();
    let curve = &long.first()?.typical;
    let unit = large(curves::unit(family), curves_most(&long));
    let lines: Vec<Line> = long
        .iter()
        .map(|one| line(place(run, &one.arm), one, unit.factor))
        .collect();
    let bands: Vec<Layer> = long
        .iter()
        .filter_map(|one| band(place(run, &one.arm), one, unit.factor))
        .collect();
    let loads = lines.iter().flat_map(|line| &line.points);
    let (least, most) = ends(loads.map(|point| point.0))?;
    let is_banded = !bands.is_empty();
    let mut plot = Plot {
        x: spread_axis(least, most, WIDE_LOADS),
        y: values_axis(&lines, &long, unit.factor)?,
        x_title: curves::axis(curve).into(),
        y_title: format!("{}, {}", curve.name, unit.name),
        margin: None,
        spans: Vec::new(),
        layers: bands.into_iter().chain(with_marks(&lines)).collect(),
        keys: lines.iter().map(|line| line.key(true)).collect(),
        hits: hits(
            &lines,
            &format!("{} ", curves::axis(curve)),
            &format!(" {}", unit.name),
            curves::value,
        ),
    };
    if curve.is_over_time() {
        disturbed::mark(&mut plot, &run.plan, (least, most));
    }
    let spread = if is_banded { BANDS } else { "" };
    Some(Chart {
        id,
        label: format!("{}{spread}", curves::title(family)),
        drawn: plot.draw(),
    })
}

const BANDS: &str = "; the bands go from the lowest trial to the highest";

/// A primary figure against CPUs: as `curve`, a line for each group in the colour of its first arm; and dotted, the law.
pub(crate) fn cpus(run: &Run, groups: &[&Scaling], id: String) -> Option<Chart> {
    let first = groups.first()?;
    let family = scaling::family(groups);
    let curves: Vec<&ArmCurve> = family.iter().collect();
    let unit = large(curves::unit(&family), curves_most(&curves));
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
    let values = family.iter().flat_map(|one| &one.highest);
    let laws_values = laws.iter().flat_map(|line| &line.points);
    let highest = values.map(|value| value * unit.factor);
    let (_, highest) = ends(highest.chain(laws_values.map(|point| point.1)))?;
    let has_bands = family.iter().any(|one| one.trials > 1);
    let keys = lines.iter().map(|line| line.key(true));
    let law_keys = laws.iter().map(|law| Key {
        line: Some(Stroke::Thin),
        ..law.key(false)
    });
    let plot = Plot {
        x: Axis::named_at(fewest, most, &counts, ACROSS),
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
        hits: hits(&lines, "CPUs ", &format!(" {}", unit.name), curves::value),
    };
    let mut label = curves::title(&family);
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
fn line(place: usize, one: &ArmCurve, factor: f64) -> Line {
    let points = one.typical.points.iter();
    Line {
        place,
        name: one.arm.clone(),
        points: points
            .map(|point| (point.at, point.value * factor))
            .collect(),
    }
}

/// Lines with a mark at each point, unless there are so many that marks would hide the line.
fn with_marks(lines: &[Line]) -> Vec<Layer> {
    const MOST_MARKS: usize = 60;
    let layers = lines.iter().flat_map(|line| {
        let marks = (line.points.len() <= MOST_MARKS).then(|| line.marks(0.0));
        [line.layer(Stroke::Arm)].into_iter().chain(marks)
    });
    layers.collect()
}

/// From the lowest trial to the highest; nothing where there is one.
fn band(place: usize, one: &ArmCurve, factor: f64) -> Option<Layer> {
    let ends = one.lowest.iter().zip(&one.highest);
    let points = one.typical.points.iter().zip(ends);
    (one.trials > 1).then(|| Layer::Band {
        place,
        points: points
            .map(|(point, (low, high))| (point.at, low * factor, high * factor))
            .collect(),
    })
}

fn curves_most(curves: &[&ArmCurve]) -> f64 {
    let values = curves.iter().flat_map(|one| &one.highest);
    values.copied().fold(0.0, f64::max)
}

/// An axis of loads: logarithmic where a linear one would crowd the small ones.
fn spread_axis(least: f64, most: f64, wide: f64) -> Axis {
    if least > 0.0 && most > wide * least {
        Axis::log(least, most, ACROSS)
    } else {
        Axis::linear(least, most, ACROSS)
    }
}

/// An axis of a curve's values, lines and bands: from zero, or logarithmic where the small ones would be hidden.
fn values_axis(lines: &[Line], curves: &[&ArmCurve], factor: f64) -> Option<Axis> {
    let typical = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|point| point.1);
    let (least, most) = ends(typical)?;
    let bands = curves.iter().filter(|one| one.trials > 1);
    let bands = bands.flat_map(|one| one.lowest.iter().chain(&one.highest));
    let (low, high) = ends(bands.map(|value| value * factor).chain([least, most]))?;
    Some(if least > 0.0 && most > WIDE_VALUES * least {
        // A band may reach zero, where a logarithmic axis has no place.
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
