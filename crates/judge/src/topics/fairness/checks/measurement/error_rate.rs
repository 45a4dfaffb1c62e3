//! Is the accepted probability of a wrong verdict small?

use plan::Plan;
use record::verdict::fairness::{Declaration, Outcome, Quantity};

use crate::topics::fairness::subject::{Subject, beyond};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "error-rate",
    group: Group::Measurement,
    question: "Is the accepted probability of a wrong verdict small?",
    reads: "`error_rate` of the plan, and what it came to where the run was given more blocks (`run --more-blocks`)",
    passes: "at most 10 %, fixed before the first trial; more by the plan is declared, and so is more by extensions",
    why: "Two runs of five that call equal arms better are a coin, not a test. Blocks that are added because a run ended undecided give chance another try, and what was fixed beforehand is not what was accepted in the end.",
    mend: "`error_rate = 0.05` and `max_blocks` as large as may be needed, before the first trial; of a run that was extended, a new run with another seed",
    judge: Judge::PlanThenRun(of_plan, error_rate),
    foreseen: Foreseen::Nothing,
};

const MOST: f64 = 0.1;

fn of_plan(plan: &Plan) -> Outcome {
    let rate = plan.design.error_rate;
    if rate <= MOST {
        return Outcome::Pass;
    }
    Outcome::Declared {
        by: Declaration::Plan,
        details: vec![beyond(("", ""), Quantity::ErrorRate, rate, MOST)],
    }
}

fn error_rate(subject: &Subject<'_>) -> Outcome {
    let planned = subject.run.plan.design.error_rate;
    let effective = subject.run.error_rate();
    if effective <= planned || planned > MOST {
        return of_plan(&subject.run.plan);
    }
    Outcome::Declared {
        by: Declaration::Extended,
        details: vec![beyond(("", ""), Quantity::ErrorRate, effective, planned)],
    }
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::journal::{Entry, Event};
    use record::verdict::fairness::{Declaration, Outcome};

    fn told(planned: f64, extended: Option<f64>) -> Outcome {
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
        assert_eq!(told(0.05, None), Outcome::Pass);
        assert!(is_declared(&told(0.2, None)));
        assert!(is_declared(&told(0.2, Some(0.3))));
    }

    #[test]
    fn an_error_rate_that_grew_by_extensions_does_not_pass() {
        let by_extension = |outcome: &Outcome| {
            matches!(
                outcome,
                Outcome::Declared {
                    by: Declaration::Extended,
                    ..
                }
            )
        };
        assert!(by_extension(&told(0.05, Some(0.075))));
        assert!(by_extension(&told(0.1, Some(0.14))));
    }
}
