//! Was memory enough?

use record::verdict::fairness::Quantity;

use crate::topics::fairness::subject::of_system;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "no-swapping",
    group: Group::Bottleneck,
    question: "Was memory enough?",
    reads: "swap in use",
    passes: "none in any trial",
    why: "An arm that swaps is measured by its disk; Mindcraft 1999 left Linux a quarter of the memory.",
    mend: "more `memory`, or a smaller load",
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
