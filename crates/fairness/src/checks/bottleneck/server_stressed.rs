//! Was the server busy where it was meant to be?

use record::verdict::fairness::{Missing, Outcome, Quantity};
use record::verdict::warning::{CpuState, Warning};

use crate::subject::{Subject, beyond, is_of_network, not_known};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "server-stressed",
    group: Group::Bottleneck,
    question: "Was the server busy where it was meant to be?",
    reads: "idle CPU time in the window of closed loops",
    passes: "less than 10 % of the CPUs' time is idle",
    why: "A server that waits for its clients has the speed of its clients, in every arm the same.",
    mend: "more connections, or a rate if latency is the question",
    judge: Judge::Run(server_stressed),
};

fn server_stressed(subject: &Subject<'_>) -> Outcome {
    if is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    subject.unless_warned(|warning| match warning {
        Warning::UnusedCpu {
            workload,
            arm,
            state: CpuState::Idle,
            share,
        } => Some(beyond((workload, arm), Quantity::IdleCpu, *share, 0.1)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::*;

    #[test]
    fn an_idle_server_is_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let warning = Warning::UnusedCpu {
            workload: "web".into(),
            arm: "7.2".into(),
            state: CpuState::Idle,
            share: 0.4,
        };
        assert!(is_violation(&warned(warning, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
        let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
        assert!(is_unknown(&outcome(&CHECK, &remote.run())));
    }
}
