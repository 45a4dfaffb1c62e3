//! If latency decides, requests come at a rate, or from many users with think time.

use record::metric::Role;
use record::verdict::fairness::{Detail, Missing, Outcome};

use crate::topics::fairness::subject::{Subject, unknown, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "latency-loop",
    group: Group::Bottleneck,
    must_hold: "If latency decides, requests come at a rate, or from many users with think time.",
    why: "In a closed loop a slow server gets fewer requests. Its slow moments then count less (coordinated omission).",
    mend: "Use `web-open` or `web-many`, or set a `rate`.",
    reads: "the primary metric, the load's schedule",
    judge: Judge::Run(latency_loop),
    foreseen: Foreseen::Nothing,
};

/// Workloads whose clients send at a rate or think between requests.
const OPEN: [&str; 5] = [
    "web-open",
    "web-many",
    "web-browse",
    "app-trade",
    "interactive",
];

fn latency_loop(subject: &Subject<'_>) -> Outcome {
    if !subject.all_are_measured() {
        return unknown(Missing::Trial);
    }
    let mut details = Vec::new();
    for workload in &subject.run.plan.workloads {
        let has_rate = workload
            .options
            .get("rate_per_s")
            .is_some_and(|rate| !rate.is_null());
        let is_open = OPEN.contains(&workload.kind.as_str()) || has_rate;
        let decides = |measurement: &record::trial::Measurement| {
            let mut figures = measurement.figures.iter();
            let primary = figures.find(|figure| figure.spec.role == Role::Primary);
            measurement.load.is_some()
                && primary.is_some_and(|figure| figure.spec.name.starts_with("latency"))
        };
        let mut of_workload = subject.measured().filter(|(id, _, _)| *id == workload.id);
        if !is_open && of_workload.any(|(_, _, measurement)| decides(measurement)) {
            details.push(Detail::Workload {
                workload: workload.id.clone(),
            });
        }
    }
    unless(details)
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn latency_of_a_closed_loop_does_not_decide() {
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Passed);
        let result = |kind: &str| {
            let run = whole().with(|run| {
                run.plan.workloads[0].kind = kind.into();
                change_measured(run, |measurement| {
                    for figure in &mut measurement.figures {
                        figure.spec.role = match figure.spec.name.as_str() {
                            "latency-p99" => record::metric::Role::Primary,
                            _ => record::metric::Role::Secondary,
                        };
                    }
                });
            });
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_failed(&result("web-static")));
        assert_eq!(result("web-open"), Outcome::Passed);
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
