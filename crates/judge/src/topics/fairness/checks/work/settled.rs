//! Had the server settled before it was measured?

use record::verdict::fairness::Quantity;
use record::verdict::warning::Warning;

use crate::topics::fairness::subject::beyond;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "settled",
    group: Group::Work,
    question: "Had the server settled before it was measured?",
    reads: "rate in the last third of the window over that in the first",
    passes: "within 10 %, or as near as chance explains",
    why: "Caches, JIT compilers and connection pools warm up; two arms at different points of that are not compared.",
    mend: "a longer `warmup`",
    judge: Judge::Run(|subject| {
        subject.unless_warned(|warning| match warning {
            Warning::Unsettled {
                workload,
                arm,
                ratio,
            } => Some(beyond((workload, arm), Quantity::Drift, *ratio, 1.1)),
            _ => None,
        })
    }),
    foreseen: Foreseen::ByDisturbances,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn a_rate_that_climbs_is_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let warning = Warning::Unsettled {
            workload: "web".into(),
            arm: "7.2".into(),
            ratio: 1.3,
        };
        assert!(is_violation(&warned(warning, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
    }
}
