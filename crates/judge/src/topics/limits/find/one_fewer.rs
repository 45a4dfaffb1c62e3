//! One client fewer at the same load: does the figure move?
//!
//! One trial is set against all of the arm's at the same place: it has moved if it lies further from their mean than the plan's margin, and further than one
//! more of them would lie in 99 of 100 cases. Which way does not matter: clients that hinder each other set a figure too.

use record::journal;
use record::load_path::OneFewerOutcome;
use record::rundir::Run;
use record::trial::Trial;
use record::verdict::limit::{LimitSign, OneFewerUse};
use statrs::distribution::{ContinuousCDF, StudentsT};

use stats::average::mean;

/// Chance that a trial which one client fewer does nothing to counts as moved.
const CHANCE: f64 = 0.01;

/// What one client fewer did, and the sign that it is; `None` where it was not measured.
pub(crate) fn of(
    run: &Run,
    (workload, arm): (&str, &str),
) -> (Option<OneFewerUse>, Option<LimitSign>) {
    let own = match journal::one_fewer(&run.entries, workload, arm) {
        None => return (None, None),
        Some(OneFewerOutcome::Failed { detail }) => {
            let detail = detail.clone();
            return (Some(OneFewerUse::Failed { detail }), None);
        }
        Some(OneFewerOutcome::Measured(own)) => own,
    };
    // Where two systems are exchanged from block to block it was measured in the place of the first block.
    let is_its = |trial: &Trial| {
        (trial.workload.as_str(), trial.arm.as_str()) == (workload, arm)
            && !run.plan.is_swapped(trial.block)
    };
    let its = run.attempts.iter().filter(|record| is_its(&record.trial));
    let measured = its.filter_map(|record| record.outcome.measured());
    let figures = measured.flat_map(|measurement| &measurement.figures);
    let figures = figures.filter(|figure| figure.spec.name == own.metric);
    let figures: Vec<f64> = figures.map(|figure| figure.value).collect();
    let typical = mean(&figures, |figure| *figure);
    if typical <= 0.0 {
        return (None, None);
    }
    let change = own.value / typical - 1.0;
    let scatter = reach(&figures).map(|reach| reach / typical);
    let is_moved =
        scatter.is_some_and(|scatter| change.abs() > scatter.max(run.plan.design.margin));
    let sign = is_moved.then_some(LimitSign::OneClientFewer {
        unit: own.unit,
        left: own.left,
        change,
    });
    let known = OneFewerUse::Known {
        unit: own.unit,
        left: own.left,
        change,
        scatter,
    };
    (Some(known), sign)
}

/// How far one more figure lies from the mean of these but for `CHANCE` (Student's prediction interval); `None` of less than two.
fn reach(figures: &[f64]) -> Option<f64> {
    let count = figures.len() as f64;
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    let centre = mean(figures, |figure| *figure);
    let squares: f64 = figures.iter().map(|one| (one - centre).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    Some(student.inverse_cdf(1.0 - CHANCE / 2.0) * deviation * (1.0 + 1.0 / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatter_is_students_prediction_interval() {
        assert_eq!(reach(&[]), None);
        assert_eq!(reach(&[7.0]), None);
        // t(0.995, 3) = 5.841; deviation of 1, 2, 3, 4: 1.2910; root of 1 + 1/4: 1.1180.
        let far = reach(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((far - 8.431).abs() < 0.001, "{far}");
        assert_eq!(reach(&[5.0; 3]), Some(0.0));
    }
}
