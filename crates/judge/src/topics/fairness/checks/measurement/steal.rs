//! Were the CPUs left to the arms by the hypervisor?

use record::verdict::fairness::Quantity;

use crate::topics::fairness::subject::of_system;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "steal",
    group: Group::Measurement,
    question: "Were the CPUs left to the arms by the hypervisor?",
    reads: "steal of the guest or the host",
    passes: "less than 1 %",
    why: "In a cloud neighbours decide the figure.",
    mend: "a machine of one's own; blocks average what is left",
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
