//! Was every request sent that was due?

use record::verdict::fairness::Quantity;

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "nothing-unsent",
    group: Group::Work,
    question: "Was every request sent that was due?",
    reads: "requests that were due and never sent",
    passes: "all were sent",
    why: "A client that waits for the last response before it sends the next one leaves out the requests that would have waited longest (coordinated omission).",
    mend: "a lower `rate`, or more connections",
    judge: Judge::Run(|subject| subject.unless_beyond(Quantity::UnsentRequests)),
    foreseen: Foreseen::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::quantity_is_watched;

    #[test]
    fn requests_that_were_not_sent_are_found() {
        quantity_is_watched(&CHECK, Quantity::UnsentRequests);
    }
}
