//! The error rate is at most 10 % and fixed before the first trial.

use plan::Plan;
use record::verdict::fairness::{AcceptedBy, Outcome, Quantity};

use crate::topics::fairness::subject::{Subject, beyond};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "error-rate",
    group: Group::Measurement,
    must_hold: "The error rate is at most 10 % and fixed before the first trial. A higher one is accepted if the plan or an extension sets it.",
    why: "A test that is wrong in two of five runs is a coin. Blocks added after an undecided end give chance another try.",
    mend: "Set `error_rate = 0.05` and a large `max_blocks` before the first trial. Repeat an extended run with another seed.",
    reads: "`error_rate` of the plan, and the rate after `run --more-blocks`",
    judge: Judge::PlanThenRun(of_plan, error_rate),
    foreseen: Foreseen::Nothing,
};

const MOST: f64 = 0.1;

fn of_plan(plan: &Plan) -> Outcome {
    let rate = plan.design.error_rate;
    if rate <= MOST {
        return Outcome::Passed;
    }
    Outcome::Accepted {
        by: AcceptedBy::Plan,
        details: vec![beyond("", "", Quantity::ErrorRate, rate, MOST)],
    }
}

fn error_rate(subject: &Subject<'_>) -> Outcome {
    let planned = subject.run.plan.design.error_rate;
    let effective = subject.run.error_rate();
    if effective <= planned || planned > MOST {
        return of_plan(&subject.run.plan);
    }
    Outcome::Accepted {
        by: AcceptedBy::Extended,
        details: vec![beyond("", "", Quantity::ErrorRate, effective, planned)],
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::journal::{Entry, Event};
    use record::verdict::fairness::{AcceptedBy, Outcome};

    fn result(planned: f64, extended: Option<f64>) -> Outcome {
        let run = whole().with(|run| {
            run.plan.design.error_rate = planned;
            run.entries.extend(extended.map(|error_rate| Entry {
                at: String::new(),
                event: Event::Extended {
                    bakeoff: "0.1.0".into(),
                    from: 10,
                    to: 20,
                    undecided: Vec::new(),
                    error_rate,
                },
            }));
        });
        outcome(&super::CHECK, &run.run())
    }

    #[test]
    fn a_large_error_rate_is_declared() {
        assert_eq!(result(0.05, None), Outcome::Passed);
        assert!(is_accepted(&result(0.2, None)));
        assert!(is_accepted(&result(0.2, Some(0.3))));
    }

    #[test]
    fn an_error_rate_that_grew_by_extensions_does_not_pass() {
        let by_extension = |outcome: &Outcome| {
            matches!(
                outcome,
                Outcome::Accepted {
                    by: AcceptedBy::Extended,
                    ..
                }
            )
        };
        assert!(by_extension(&result(0.05, Some(0.075))));
        assert!(by_extension(&result(0.1, Some(0.14))));
    }
}
