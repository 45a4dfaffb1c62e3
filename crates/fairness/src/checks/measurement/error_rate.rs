//! Is the accepted probability of a wrong verdict small?

use plan::Plan;
use record::verdict::fairness::{Declaration, Outcome, Quantity};

use crate::subject::beyond;
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "error-rate",
    group: Group::Measurement,
    question: "Is the accepted probability of a wrong verdict small?",
    reads: "`error_rate` of the plan",
    passes: "at most 10 %; more is declared",
    why: "Two runs of five that call equal arms better are a coin, not a test.",
    mend: "`error_rate = 0.05` and more blocks",
    judge: Judge::Plan(error_rate),
};

const MOST: f64 = 0.1;

fn error_rate(plan: &Plan) -> Outcome {
    let rate = plan.design.error_rate;
    if rate <= MOST {
        return Outcome::Pass;
    }
    Outcome::Declared {
        by: Declaration::Plan,
        details: vec![beyond(("", ""), Quantity::ErrorRate, rate, MOST)],
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_large_error_rate_is_declared() {
        let told = |rate: f64| {
            let run = whole().with(|run| run.plan.design.error_rate = rate);
            outcome(&super::CHECK, &run.run())
        };
        assert_eq!(told(0.05), Outcome::Pass);
        assert!(is_declared(&told(0.2)));
    }
}
