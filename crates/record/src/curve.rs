//! A curve: a figure against the load, with one point per step of a ramp.

use serde::{Deserialize, Serialize};

use crate::metric::Direction;

/// A figure of one trial, measured at several loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Short and lower case, unique in its trial: `throughput`.
    pub name: String,
    /// Unit of the points' values.
    pub unit: String,
    /// Which way is better.
    pub direction: Direction,
    /// Unit of the load: `connections`, `requests/s`; `s` if the axis is the time in the window.
    pub axis: String,
    /// The points, lowest load first.
    pub points: Vec<Point>,
}

/// One step of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The load, in units of `axis`.
    pub at: f64,
    /// The figure at this load; finite.
    pub value: f64,
}

/// A curve collapses if less than this share of its peak is left at the highest load.
pub const COLLAPSE: f64 = 0.5;

/// The knee is the lowest load that reaches this share of the peak.
pub const KNEE: f64 = 0.95;

/// Summary of a curve whose higher values are better.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Its highest point.
    pub peak: Point,
    /// The lowest load that reaches `KNEE` of the peak.
    pub knee: f64,
    /// Share of the peak that is left at the highest load.
    pub kept: f64,
}

impl Curve {
    /// Whether it runs over the seconds of the window instead of over loads.
    pub fn is_over_time(&self) -> bool {
        self.axis == "s"
    }

    /// Its summary; `None` without points or if no value is above zero.
    pub fn shape(&self) -> Option<Shape> {
        let peak = self
            .points
            .iter()
            .copied()
            .max_by(|a, b| a.value.total_cmp(&b.value))?;
        if peak.value <= 0.0 {
            return None;
        }
        let knee = self
            .points
            .iter()
            .find(|point| point.value >= KNEE * peak.value)?;
        let last = self.points.last()?;
        Some(Shape {
            peak,
            knee: knee.at,
            kept: last.value / peak.value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        let points = points.iter().map(|(at, value)| Point {
            at: *at,
            value: *value,
        });
        Curve {
            name: "throughput".into(),
            unit: "requests/s".into(),
            direction: Direction::Higher,
            axis: "connections".into(),
            points: points.collect(),
        }
    }

    #[test]
    fn the_curve_of_1999_has_its_knee_and_its_collapse() {
        // Linux in Mindcraft's WebBench: 1000/s at 160 threads, then 7 % of it.
        let linux = curve(&[(1.0, 300.0), (96.0, 960.0), (160.0, 1000.0), (288.0, 70.0)]);
        let shape = linux.shape().unwrap();
        assert_eq!((shape.peak.at, shape.knee), (160.0, 96.0));
        assert!((shape.kept - 0.07).abs() < 1e-9 && shape.kept < COLLAPSE);
    }

    #[test]
    fn a_rising_curve_keeps_all_of_its_peak() {
        let shape = curve(&[(1.0, 1.0), (2.0, 2.0)]).shape().unwrap();
        assert_eq!((shape.knee, shape.kept), (2.0, 1.0));
    }

    #[test]
    fn a_curve_without_values_has_no_shape() {
        assert_eq!(curve(&[]).shape(), None);
        assert_eq!(curve(&[(1.0, 0.0)]).shape(), None);
    }
}
