//! No arm uses swap in any trial.

use record::verdict::fairness::Quantity;

use crate::topics::fairness::subject::of_system;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "no-swapping",
    group: Group::Bottleneck,
    must_hold: "No arm uses swap in any trial.",
    why: "An arm that swaps runs at the speed of its disk. Mindcraft 1999 gave Linux a quarter of the memory.",
    mend: "Add `memory`, or reduce the load.",
    reads: "swap in use",
    judge: Judge::Run(|subject| of_system(subject, Quantity::Swap)),
    foreseen: Foreseen::ByDisturbances,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::system_quantity_is_watched;

    #[test]
    fn swapping_is_found() {
        system_quantity_is_watched(&CHECK, Quantity::Swap);
    }
}
