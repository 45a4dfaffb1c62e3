//! Did watching cost next to nothing?

use record::verdict::fairness::Quantity;
use record::verdict::warning::CpuState;

use crate::topics::fairness::subject::unused_cpu;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "sampling",
    group: Group::Measurement,
    question: "Did watching cost next to nothing?",
    reads: "CPU time of the sampler",
    passes: "less than 1 %",
    why: "An observer on the measured CPU is part of the figure.",
    mend: "longer windows; fewer servers on one machine",
    judge: Judge::Run(|subject| unused_cpu(subject, CpuState::Sampling, Quantity::Sampling, 0.01)),
    foreseen: Foreseen::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampler_that_costs_is_found() {
        crate::topics::fairness::tests::cpu_state_is_watched(&CHECK, CpuState::Sampling);
    }
}
