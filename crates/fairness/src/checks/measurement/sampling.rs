//! Did watching cost next to nothing?

use record::verdict::fairness::{Missing, Outcome, Quantity};
use record::verdict::warning::{CpuState, Warning};

use crate::subject::{Subject, beyond, is_of_network, not_known};
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "sampling",
    group: Group::Measurement,
    question: "Did watching cost next to nothing?",
    reads: "CPU time of the sampler",
    passes: "less than 1 %",
    why: "An observer on the measured CPU is part of the figure.",
    mend: "longer windows; fewer servers on one machine",
    judge: Judge::Run(sampling),
};

fn sampling(subject: &Subject<'_>) -> Outcome {
    if is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    subject.unless_warned(|warning| match warning {
        Warning::UnusedCpu {
            workload,
            arm,
            state: CpuState::Sampling,
            share,
        } => Some(beyond((workload, arm), Quantity::Sampling, *share, 0.01)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::*;

    #[test]
    fn a_sampler_that_costs_is_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let warning = Warning::UnusedCpu {
            workload: "web".into(),
            arm: "7.2".into(),
            state: CpuState::Sampling,
            share: 0.1,
        };
        assert!(is_violation(&warned(warning, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
        let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
        assert!(is_unknown(&outcome(&CHECK, &remote.run())));
    }
}
