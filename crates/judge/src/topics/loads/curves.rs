//! Merges the curves of an arm's trials: the median, the lowest and the highest value at each load.

use record::curve::{Curve, Point};
use record::metric::Direction;
use record::rundir::Run;
use record::verdict::ArmCurve;

use crate::topics::metrics::measured::Measured;
use stats::average::median;

/// The curves of all workloads, ordered by workload, by the workload's order of curves, and by arm.
pub(crate) fn of(run: &Run, measured: &Measured<'_>) -> Vec<ArmCurve> {
    let mut merged = Vec::new();
    for workload in &run.plan.workloads {
        let arms = run.plan.arms.iter();
        let arms: Vec<(&str, Vec<&Curve>)> = arms
            .map(|arm| (arm.name.as_str(), curves(measured, &workload.id, &arm.name)))
            .collect();
        let mut names: Vec<&str> = Vec::new();
        for curve in arms.iter().flat_map(|(_, curves)| curves) {
            if !names.contains(&curve.name.as_str()) {
                names.push(&curve.name);
            }
        }
        for name in names {
            for (arm, curves) in &arms {
                let trials = curves.iter().copied().filter(|curve| curve.name == name);
                merged.extend(merge(&workload.id, arm, &trials.collect::<Vec<_>>()));
            }
        }
    }
    merged
}

fn curves<'r>(measured: &Measured<'r>, workload: &str, arm: &str) -> Vec<&'r Curve> {
    let trials = measured.of_arm(workload, arm);
    trials.iter().flat_map(|trial| &trial.curves).collect()
}

/// Merges one curve of several trials. A load that only some trials reached has the values of these trials.
fn merge(workload: &str, arm: &str, trials: &[&Curve]) -> Option<ArmCurve> {
    let first = trials.first()?;
    let points = || trials.iter().flat_map(|curve| &curve.points);
    let mut loads: Vec<f64> = points().map(|point| point.at).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let (mut typical, mut lowest, mut highest) = (Vec::new(), Vec::new(), Vec::new());
    for at in loads {
        let points = points().filter(|point| point.at.total_cmp(&at).is_eq());
        let values: Vec<f64> = points.map(|point| point.value).collect();
        let value = median(&values);
        typical.push(Point { at, value });
        lowest.push(values.iter().copied().fold(value, f64::min));
        highest.push(values.iter().copied().fold(value, f64::max));
    }
    let typical = Curve {
        points: typical,
        ..(*first).clone()
    };
    let has_shape = typical.direction == Direction::Higher && !typical.is_over_time();
    Some(ArmCurve {
        workload: workload.into(),
        arm: arm.into(),
        trials: trials.len() as u32,
        shape: typical.shape().filter(|_| has_shape),
        typical,
        lowest,
        highest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::fixtures::builder::RunBuilder;

    fn curve(direction: Direction, axis: &str, points: &[(f64, f64)]) -> Curve {
        let points = points.iter().map(|(at, value)| Point {
            at: *at,
            value: *value,
        });
        Curve {
            name: "throughput".into(),
            unit: "requests/s".into(),
            direction,
            axis: axis.into(),
            points: points.collect(),
        }
    }

    /// Merged curves of three trials of the baseline, with one curve each.
    fn merged(curves: [Curve; 3]) -> Vec<ArmCurve> {
        let builder = RunBuilder::new().blocks(&[[1.0, 2.0]; 3]).with(|run| {
            let baseline = run
                .attempts
                .iter_mut()
                .filter(|record| record.trial.arm == "6.1");
            for (record, curve) in baseline.zip(curves) {
                let trial = record.outcome.measured_mut().unwrap();
                trial.curves = vec![curve];
            }
        });
        crate::judge(&builder.run()).curves
    }

    #[test]
    fn an_outlier_widens_the_range_and_keeps_the_median() {
        let steady = curve(
            Direction::Higher,
            "connections",
            &[(1.0, 50.0), (9.0, 100.0), (99.0, 30.0)],
        );
        let outlier = curve(
            Direction::Higher,
            "connections",
            &[(1.0, 51.0), (9.0, 900.0)],
        );
        let merged = merged([steady.clone(), outlier, steady.clone()]);
        let [baseline] = merged.as_slice() else {
            panic!("the other arm has no curve: {merged:?}")
        };
        assert_eq!(baseline.typical, steady);
        assert_eq!((baseline.arm.as_str(), baseline.trials), ("6.1", 3));
        assert_eq!(baseline.lowest, [50.0, 100.0, 30.0]);
        assert_eq!(baseline.highest, [51.0, 900.0, 30.0]);
        let shape = baseline.shape.unwrap();
        assert_eq!((shape.peak.at, shape.knee, shape.kept), (9.0, 9.0, 0.3));
    }

    #[test]
    fn latency_and_time_have_no_knee() {
        for (direction, axis) in [(Direction::Lower, "connections"), (Direction::Higher, "s")] {
            let flat = curve(direction, axis, &[(1.0, 5.0), (2.0, 5.0)]);
            let merged = merged([flat.clone(), flat.clone(), flat]);
            assert_eq!(merged[0].shape, None);
        }
    }
}
