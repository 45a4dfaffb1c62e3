//! Were the CPUs left to the arms by the hypervisor?

use record::verdict::fairness::{Missing, Outcome, Quantity};
use record::verdict::warning::{CpuState, Warning};

use crate::subject::{Subject, beyond, is_of_network, not_known};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "steal",
    group: Group::Measurement,
    question: "Were the CPUs left to the arms by the hypervisor?",
    reads: "steal of the guest or the host",
    passes: "less than 1 %",
    why: "In a cloud neighbours decide the figure.",
    mend: "a machine of one's own; blocks average what is left",
    judge: Judge::Run(steal),
};

fn steal(subject: &Subject<'_>) -> Outcome {
    if is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    subject.unless_warned(|warning| match warning {
        Warning::UnusedCpu {
            workload,
            arm,
            state: CpuState::Stolen,
            share,
        } => Some(beyond((workload, arm), Quantity::Steal, *share, 0.01)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::*;

    #[test]
    fn steal_is_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let warning = Warning::UnusedCpu {
            workload: "web".into(),
            arm: "7.2".into(),
            state: CpuState::Stolen,
            share: 0.1,
        };
        assert!(is_violation(&warned(warning, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
        let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
        assert!(is_unknown(&outcome(&CHECK, &remote.run())));
    }
}
