//! The hypervisor takes less than 1 % of CPU time (steal).

use record::verdict::fairness::Quantity;

use crate::topics::fairness::subject::of_system;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "steal",
    group: Group::Measurement,
    must_hold: "The hypervisor takes less than 1 % of CPU time (steal).",
    why: "In a cloud, neighbours change the figures.",
    mend: "Use a dedicated machine, or run more blocks to average it out.",
    reads: "steal of guest or host",
    judge: Judge::Run(|subject| of_system(subject, Quantity::Steal)),
    foreseen: Foreseen::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::system_quantity_is_watched;

    #[test]
    fn steal_is_found() {
        system_quantity_is_watched(&CHECK, Quantity::Steal);
    }
}
