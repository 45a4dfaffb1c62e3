//! Was the server busy where it was meant to be?

use record::verdict::fairness::Quantity;
use record::verdict::warning::CpuState;

use crate::subject::unused_cpu;
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-stressed",
    group: Group::Bottleneck,
    question: "Was the server busy where it was meant to be?",
    reads: "idle CPU time in the window of closed loops",
    passes: "less than 10 % of the CPUs' time is idle",
    why: "A server that waits for its clients has the speed of its clients, in every arm the same.",
    mend: "more connections, or a rate if latency is the question",
    judge: Judge::Run(|subject| unused_cpu(subject, CpuState::Idle, Quantity::IdleCpu, 0.1)),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_server_is_found() {
        crate::tests::cpu_state_is_watched(&CHECK, CpuState::Idle);
    }
}
