//! Curves of figures against load, in words and tables.

use base::input::units::significant;
use record::curve::{COLLAPSE, Curve};
use record::instructions::VIRTUAL;
use record::verdict::{ArmCurve, Judgement};

use crate::words;

/// Most loads in a table that is not collapsed.
const MOST_ROWS: usize = 12;

/// The curves of one workload, grouped by name, with one curve for each arm. A family that is zero at all loads, such as failed
/// requests, is left out.
pub(crate) fn families<'j>(judgement: &'j Judgement, workload: &str) -> Vec<&'j [ArmCurve]> {
    let is_same = |left: &ArmCurve, right: &ArmCurve| {
        (&left.workload, &left.typical.name) == (&right.workload, &right.typical.name)
    };
    let families = judgement.curves.chunk_by(is_same);
    families
        .filter(|family| family[0].workload == workload)
        .filter(|family| {
            let mut values = family
                .iter()
                .flat_map(|curve| curve.lowest.iter().chain(&curve.highest));
            values.any(|value| *value != 0.0)
        })
        .collect()
}

/// Title of a family: `throughput ↑, requests/s against connections, median of 3 trials`.
pub(crate) fn title(family: &[ArmCurve]) -> String {
    let curve = &family[0].typical;
    let trials = family.iter().map(|curve| curve.trials).max().unwrap_or(0);
    let median = match trials {
        1 => String::new(),
        more => format!(", median of {more} trials"),
    };
    let name = words::arrowed(&curve.name, curve.direction);
    let unit = unit(family).name;
    format!("{name}, {unit} against {}{median}", axis(curve))
}

/// The unit of the load.
pub(crate) fn axis(curve: &Curve) -> &str {
    if curve.is_over_time() {
        "seconds of the window"
    } else {
        &curve.axis
    }
}

/// A readable unit for all arms of a family.
pub(crate) fn unit(family: &[ArmCurve]) -> Unit {
    let values = family.iter().flat_map(|curve| &curve.highest);
    Unit::fit(&family[0].typical.unit, values.copied().fold(0.0, f64::max))
}

/// A server keeps up with a requested rate if it serves at least this share.
const KEEPS_UP: f64 = 0.95;

/// A unit, and the factor that converts a value to it.
pub(crate) struct Unit {
    pub(crate) name: String,
    pub(crate) factor: f64,
}

impl Unit {
    /// The smallest unit of time from `unit` on in which the value is below 10 000. Other units are kept.
    pub(crate) fn fit(unit: &str, value: f64) -> Self {
        const TIMES: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
        if let Some(virtual_time) = unit.strip_prefix(VIRTUAL) {
            let fitting = Self::fit(virtual_time, value);
            return Self {
                name: format!("virtual {}", fitting.name),
                ..fitting
            };
        }
        let (mut name, mut factor) = (unit, 1.0);
        if let Some(place) = TIMES.iter().position(|(name, _)| *name == unit) {
            let (_, seconds) = TIMES[place];
            for (larger, in_s) in &TIMES[place..] {
                (name, factor) = (larger, seconds / in_s);
                if value.abs() * seconds / in_s < 1e4 {
                    break;
                }
            }
        }
        Self {
            name: words::unit(name),
            factor,
        }
    }
}

/// A table of load by arm with its head. A long curve is thinned.
pub(crate) fn short_rows(family: &[ArmCurve]) -> Vec<Vec<String>> {
    let all = rows(family);
    let stride = (all.len() - 1).div_ceil(MOST_ROWS).max(1);
    let (head, loads) = all.split_at(1);
    let shown = loads.iter().step_by(stride);
    head.iter().chain(shown).cloned().collect()
}

/// A table of load by arm with its head.
pub(crate) fn rows(family: &[ArmCurve]) -> Vec<Vec<String>> {
    let factor = unit(family).factor;
    let points = family.iter().flat_map(|curve| &curve.typical.points);
    let mut loads: Vec<f64> = points.map(|point| point.at).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let mut head = vec![axis(&family[0].typical).to_string()];
    head.extend(family.iter().map(|curve| curve.arm.clone()));
    let mut rows = vec![head];
    for at in loads {
        let mut row = vec![load(at)];
        for curve in family {
            let points = &curve.typical.points;
            row.push(
                match points.binary_search_by(|point| point.at.total_cmp(&at)) {
                    Ok(place) => value(points[place].value * factor),
                    Err(_) => words::NONE.into(),
                },
            );
        }
        rows.push(row);
    }
    rows
}

/// A load, without decimals if it is whole.
pub(crate) fn load(at: f64) -> String {
    if at.fract() == 0.0 && (0.0..1e15).contains(&at) {
        words::count(at as u64)
    } else {
        significant(at, 3)
    }
}

/// A value with four significant digits.
pub(crate) fn value(value: f64) -> String {
    if value < 999.95 {
        significant(value, 4)
    } else {
        words::count(value.round() as u64)
    }
}

/// Peak and knee of each arm's curve, and its value at the highest load. Empty if lower values are better.
pub(crate) fn sentences(family: &[ArmCurve]) -> Vec<String> {
    family.iter().filter_map(sentence).collect()
}

fn sentence(arm_curve: &ArmCurve) -> Option<String> {
    let (shape, curve) = (arm_curve.shape?, &arm_curve.typical);
    let last = curve.points.last().filter(|_| curve.points.len() > 1)?;
    let (axis, kept) = (&curve.axis, significant(shape.kept * 100.0, 2));
    let is_rate_against_rate = *axis == curve.unit;
    let served = last.value / last.at;
    let beyond_peak = if is_rate_against_rate && served < KEEPS_UP {
        format!(
            "does not keep up: of {} asked for, {} % is served",
            load(last.at),
            significant(served * 100.0, 2)
        )
    } else if last.at.total_cmp(&shape.peak.at).is_eq() {
        "it was still climbing there, so that its true peak may lie beyond".to_string()
    } else if shape.kept < COLLAPSE {
        format!(
            "collapses past it: {kept} % of its peak is left at {}",
            load(last.at)
        )
    } else {
        format!("{kept} % of its peak is left at {}", load(last.at))
    };
    Some(format!(
        "{}: peak {} {} at {} {axis}, knee at {}; {beyond_peak}",
        arm_curve.arm,
        value(shape.peak.value),
        words::unit(&curve.unit),
        load(shape.peak.at),
        load(shape.knee),
    ))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::report::judged;
    use record::fixtures::web;

    #[test]
    fn a_server_that_does_not_keep_up_with_a_rate_is_not_reported_as_climbing() {
        let (_, judgement) = judged(web::connection_ramp());
        let mut curve = families(&judgement, "web-static")[0][0].clone();
        curve.typical.axis = "requests/s".into();
        let point = |at: f64, value: f64| record::curve::Point { at, value };
        curve.typical.points = vec![point(500.0, 500.0), point(90_000.0, 34_000.0)];
        curve.shape = curve.typical.shape();
        expect!["6.1: peak 34 000 requests/s at 90 000 requests/s, knee at 90 000; does not keep up: of 90 000 asked for, 38 % is served"]
            .assert_eq(&sentence(&curve).unwrap());
    }

    #[test]
    fn each_arm_has_a_sentence_and_a_column() {
        let (_, judgement) = judged(web::connection_ramp());
        let text = |family: &&[ArmCurve]| {
            let mut lines = vec![title(family)];
            lines.extend(rows(family).iter().map(|row| row.join(" | ")));
            lines.extend(sentences(family));
            lines.join("\n")
        };
        let families = families(&judgement, "web-static");
        let texts: Vec<String> = families.iter().map(text).collect();
        expect![[r#"
            throughput ↑, requests/s against connections, median of 10 trials
            connections | 6.1 | 7.2
            1 | 306.0 | 306.0
            16 | 918.0 | 918.0
            96 | 999.6 | 999.6
            160 | 1 020 | 1 020
            288 | 71.40 | 999.6
            6.1: peak 1 020 requests/s at 160 connections, knee at 96; collapses past it: 7.0 % of its peak is left at 288
            7.2: peak 1 020 requests/s at 160 connections, knee at 96; 98 % of its peak is left at 288

            latency-p99 ↓, ms against connections, median of 10 trials
            connections | 6.1 | 7.2
            1 | 5.440 | 5.440
            16 | 29.01 | 29.01
            96 | 159.9 | 159.9
            160 | 261.1 | 261.1
            288 | 6 715 | 479.6"#]].assert_eq(&texts.join("\n\n"));
    }

    #[test]
    fn a_long_curve_is_thinned_for_a_terminal() {
        let (_, mut judgement) = judged(web::connection_ramp());
        let curve = &mut judgement.curves[0];
        curve.typical.points = (0..240)
            .map(|at| record::curve::Point {
                at: f64::from(at),
                value: 1.0,
            })
            .collect();
        let rows = short_rows(&judgement.curves[..1]);
        assert_eq!(
            (rows.len(), rows[1][0].as_str(), rows[2][0].as_str()),
            (13, "0", "20")
        );
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        let fit = |unit: &str, value| {
            let fitting = Unit::fit(unit, value);
            format!(
                "{} {}",
                significant(value * fitting.factor, 3),
                fitting.name
            )
        };
        assert_eq!(fit("us", 69.8), "69.8 µs");
        assert_eq!(fit("us/request", 261.2), "261 µs/request");
        assert_eq!(fit("us", 3_464_495.0), "3460 ms");
        assert_eq!(fit("ns", 2e13), "20000 s");
        assert_eq!(fit("requests/s", 1e9), "1000000000 requests/s");
    }
}
