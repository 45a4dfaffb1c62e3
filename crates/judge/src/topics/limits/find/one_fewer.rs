//! Tests whether the figure changes if the same load comes from one client fewer.
//!
//! One trial with one client fewer is compared with all trials of the arm. The figure has moved if it differs from their mean by more
//! than the plan's margin, and by more than another trial would in 99 of 100 cases. The direction does not matter, because clients that
//! hinder each other limit a figure too.

use record::journal;
use record::load_path::OneFewerOutcome;
use record::rundir::Run;
use record::trial::Trial;
use record::verdict::limit::{LimitSign, OneFewerUse};
use statrs::distribution::{ContinuousCDF, StudentsT};

use stats::average::mean;

/// Probability that a figure counts as moved although one client fewer has no effect.
const ERROR_RATE: f64 = 0.01;

/// The effect of one client fewer, and the sign if the figure moved. Both are `None` if it was not measured.
pub(crate) fn of(run: &Run, workload: &str, arm: &str) -> (Option<OneFewerUse>, Option<LimitSign>) {
    let one_fewer = match journal::one_fewer(&run.entries, workload, arm) {
        None => return (None, None),
        Some(OneFewerOutcome::Failed { detail }) => {
            let detail = detail.clone();
            return (Some(OneFewerUse::Failed { detail }), None);
        }
        Some(OneFewerOutcome::Measured(one_fewer)) => one_fewer,
    };
    // If two systems swap places from block to block, one client fewer was measured with the places of the first block.
    let is_comparable = |trial: &Trial| {
        (trial.workload.as_str(), trial.arm.as_str()) == (workload, arm)
            && !run.plan.is_swapped(trial.block)
    };
    let trials = run.attempts.iter();
    let trials = trials.filter(|record| is_comparable(&record.trial));
    let measured = trials.filter_map(|record| record.outcome.measured());
    let figures = measured.flat_map(|measurement| &measurement.figures);
    let figures = figures.filter(|figure| figure.spec.name == one_fewer.metric);
    let figures: Vec<f64> = figures.map(|figure| figure.value).collect();
    let typical = mean(&figures, |figure| *figure);
    if typical <= 0.0 {
        return (None, None);
    }
    let change = one_fewer.value / typical - 1.0;
    let scatter = prediction_half_width(&figures).map(|width| width / typical);
    let is_moved =
        scatter.is_some_and(|scatter| change.abs() > scatter.max(run.plan.design.margin));
    let sign = is_moved.then_some(LimitSign::OneClientFewer {
        unit: one_fewer.unit,
        left: one_fewer.left,
        change,
    });
    let known = OneFewerUse::Known {
        unit: one_fewer.unit,
        left: one_fewer.left,
        change,
        scatter,
    };
    (Some(known), sign)
}

/// Half the width of Student's prediction interval for one more figure. `None` for fewer than two figures.
fn prediction_half_width(figures: &[f64]) -> Option<f64> {
    let count = figures.len() as f64;
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    let centre = mean(figures, |figure| *figure);
    let squares = figures.iter().map(|figure| (figure - centre).powi(2));
    let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
    Some(student.inverse_cdf(1.0 - ERROR_RATE / 2.0) * deviation * (1.0 + 1.0 / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatter_is_students_prediction_interval() {
        assert_eq!(prediction_half_width(&[]), None);
        assert_eq!(prediction_half_width(&[7.0]), None);
        // t(0.995, 3) = 5.841; deviation of 1, 2, 3, 4: 1.2910; root of 1 + 1/4: 1.1180.
        let width = prediction_half_width(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((width - 8.431).abs() < 0.001, "{width}");
        assert_eq!(prediction_half_width(&[5.0; 3]), Some(0.0));
    }
}
