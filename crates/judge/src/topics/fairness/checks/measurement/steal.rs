//! Were the CPUs left to the arms by the hypervisor?

use record::verdict::fairness::Quantity;
use record::verdict::warning::CpuState;

use crate::topics::fairness::subject::unused_cpu;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "steal",
    group: Group::Measurement,
    question: "Were the CPUs left to the arms by the hypervisor?",
    reads: "steal of the guest or the host",
    passes: "less than 1 %",
    why: "In a cloud neighbours decide the figure.",
    mend: "a machine of one's own; blocks average what is left",
    judge: Judge::Run(|subject| unused_cpu(subject, CpuState::Stolen, Quantity::Steal, 0.01)),
    foreseen: Foreseen::Nothing,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_found() {
        crate::topics::fairness::tests::cpu_state_is_watched(&CHECK, CpuState::Stolen);
    }
}
