//! Was memory enough?

use record::verdict::fairness::{Missing, Outcome, Quantity};
use record::verdict::warning::Warning;

use crate::topics::fairness::subject::{Subject, beyond, is_of_network, not_known};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "no-swapping",
    group: Group::Bottleneck,
    question: "Was memory enough?",
    reads: "swap in use",
    passes: "none in any trial",
    why: "An arm that swaps is measured by its disk; Mindcraft 1999 left Linux a quarter of the memory.",
    mend: "more `memory`, or a smaller load",
    judge: Judge::Run(no_swapping),
    foreseen: Foreseen::ByDisturbances,
};

fn no_swapping(subject: &Subject<'_>) -> Outcome {
    if is_of_network(&subject.run.plan) {
        return not_known(Missing::SystemOnNetwork);
    }
    subject.unless_warned(|warning| match warning {
        Warning::Swapped {
            workload,
            arm,
            bytes,
        } => Some(beyond((workload, arm), Quantity::Swap, *bytes as f64, 0.0)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::fairness::tests::*;

    #[test]
    fn swapping_is_found() {
        assert_eq!(outcome(&CHECK, &whole().run()), Outcome::Pass);
        let warning = Warning::Swapped {
            workload: "web".into(),
            arm: "7.2".into(),
            bytes: 1 << 20,
        };
        assert!(is_violation(&warned(warning, &CHECK)));
        assert!(is_unknown(&outcome(&CHECK, &empty().run())));
        let remote = whole().with(|run| run.plan.machine.kind = plan::MachineKind::Url);
        assert!(is_unknown(&outcome(&CHECK, &remote.run())));
    }
}
