//! Was every request sent that was due?

use record::verdict::fairness::Quantity;
use record::verdict::warning::Warning;

use crate::topics::fairness::subject::beyond;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "nothing-unsent",
    group: Group::Work,
    question: "Was every request sent that was due?",
    reads: "requests that were due and never sent",
    passes: "all were sent",
    why: "A client that waits for the last response before it sends the next one leaves out the requests that would have waited longest (coordinated omission).",
    mend: "a lower `rate`, or more connections",
    judge: Judge::Run(|subject| {
        subject.unless_warned(|warning| match warning {
            Warning::UnsentRequests(requests) => Some(beyond(
                (&requests.workload, &requests.arm),
                Quantity::UnsentRequests,
                requests.count as f64,
                0.0,
            )),
            _ => None,
        })
    }),
    foreseen: Foreseen::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn requests_that_were_not_sent_are_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let warning = Warning::UnsentRequests(record::verdict::warning::RequestCount {
            workload: "web".into(),
            arm: "7.2".into(),
            count: 3,
        });
        assert!(is_violation(&warned(warning, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
    }
}
