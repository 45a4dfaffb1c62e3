//! The sampler takes less than 1 % of CPU time.

use record::verdict::fairness::Quantity;

use crate::topics::fairness::subject::of_system;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "sampling",
    group: Group::Measurement,
    must_hold: "The sampler takes less than 1 % of CPU time.",
    why: "A sampler on the measured CPU changes the figure.",
    mend: "Use longer windows, or fewer servers on one machine.",
    reads: "CPU time of the sampler",
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
