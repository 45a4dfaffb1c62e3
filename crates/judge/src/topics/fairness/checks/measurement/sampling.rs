//! Did watching cost next to nothing?

use record::verdict::fairness::Quantity;

use crate::topics::fairness::subject::of_system;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "sampling",
    group: Group::Measurement,
    question: "Did watching cost next to nothing?",
    reads: "CPU time of the sampler",
    passes: "less than 1 %",
    why: "An observer on the measured CPU is part of the figure.",
    mend: "longer windows; fewer servers on one machine",
    judge: Judge::Run(|subject| of_system(subject, Quantity::Sampling)),
    foreseen: Foreseen::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::system_quantity_is_watched;

    #[test]
    fn a_sampler_that_costs_is_found() {
        system_quantity_is_watched(&CHECK, Quantity::Sampling);
    }
}
