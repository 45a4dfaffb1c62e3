//! Is no disk part of what is counted in instructions?

use record::verdict::fairness::{Missing, Outcome, Quantity};
use record::verdict::warning::{CpuState, Warning};

use crate::subject::{Subject, beyond, is_of_network, not_known};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "no-disk-wait",
    group: Group::Bottleneck,
    question: "Is no disk part of what is counted in instructions?",
    reads: "time in which the disk was waited for, under counted instructions",
    passes: "less than 1 % of the window",
    why: "A guest that idles for its disk leaps to its next timer: the figure is then a timer's.",
    mend: "let the server read its files before the window: a longer `warmup`, more `memory`",
    judge: Judge::Run(no_disk_wait),
};

fn no_disk_wait(subject: &Subject<'_>) -> Outcome {
    if is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    subject.unless_warned(|warning| match warning {
        Warning::UnusedCpu {
            workload,
            arm,
            state: CpuState::WaitingForDisk,
            share,
        } => Some(beyond((workload, arm), Quantity::DiskWait, *share, 0.01)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::*;

    #[test]
    fn a_disk_that_is_waited_for_is_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let warning = Warning::UnusedCpu {
            workload: "web".into(),
            arm: "7.2".into(),
            state: CpuState::WaitingForDisk,
            share: 0.1,
        };
        assert!(is_violation(&warned(warning, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
        let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
        assert!(is_unknown(&outcome(&CHECK, &remote.run())));
    }
}
