//! Where latency decides, do requests come whether or not the last one was answered?

use record::metric::Role;
use record::verdict::fairness::{Detail, Missing, Outcome};

use crate::topics::fairness::subject::{Subject, not_known, unless};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "latency-loop",
    group: Group::Bottleneck,
    question: "Where latency decides, do requests come whether or not the last one was answered?",
    reads: "the primary metric, the load's schedule",
    passes: "latency decides only where requests come at a rate, or from many users who think in between",
    why: "In a closed loop a slow server is asked less often, so its bad moments count less (coordinated omission).",
    mend: "`web-open`, `web-many`, or a `rate`",
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
        return not_known(Missing::Trial);
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
            let primary = figures.find(|one| one.spec.role == Role::Primary);
            measurement.load.is_some()
                && primary.is_some_and(|one| one.spec.name.starts_with("latency"))
        };
        let mut own = subject.measured().filter(|(id, _, _)| *id == workload.id);
        if !is_open && own.any(|(_, _, measurement)| decides(measurement)) {
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
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Pass);
        let told = |kind: &str| {
            let run = whole().with(|run| {
                run.plan.workloads[0].kind = kind.into();
                change_measured(run, |measurement| {
                    for figure in &mut measurement.figures {
                        figure.spec.role = match figure.spec.name.as_str() {
                            "latency-p99" => record::metric::Role::Primary,
                            _ => record::metric::Role::Guard,
                        };
                    }
                });
            });
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_violation(&told("web-static")));
        assert_eq!(told("web-open"), Outcome::Pass);
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
