//! Clients send every request that is due.

use record::verdict::fairness::Quantity;

use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "nothing-unsent",
    group: Group::Work,
    must_hold: "Clients send every request that is due.",
    why: "A client that waits for an answer first leaves out the slowest requests (coordinated omission).",
    mend: "Lower the `rate`, or use more connections.",
    reads: "requests that were due and never sent",
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
