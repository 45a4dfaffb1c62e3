//! Did each arm run the kernel that it names?

use record::verdict::fairness::{Detail, Missing, Outcome};
use record::verdict::finding::Kind;
use record::verdict::weighed::Seen;

use crate::topics::fairness::subject::{Subject, is_of_network, not_known, without};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "kernel-that-ran",
    group: Group::Arms,
    question: "Did each arm run the kernel that it names?",
    reads: "the release that each trial's kernel tells, and of kernels of one release their build ids",
    passes: "arms that name different kernels ran different ones, each the same in all of its trials",
    why: "A boot loader that falls back on the old kernel compares it with itself.",
    mend: "look at `trials/NNN/console.log`",
    judge: Judge::Run(kernel_that_ran),
    foreseen: Foreseen::Nothing,
};

fn kernel_that_ran(subject: &Subject<'_>) -> Outcome {
    if is_of_network(&subject.run.plan) && subject.all_are_measured() {
        return not_known(Missing::SystemOnNetwork);
    }
    let trials: Vec<_> = subject.trials().collect();
    let varying = subject.arms().filter_map(|arm| {
        let own = trials.iter().filter(|trial| trial.arm == arm);
        let values =
            Seen::of(own.map(|trial| (trial.number, Some(trial.measurement.kernel.clone()))));
        (values.len() > 1).then(|| Detail::Varies {
            fact: "uname".into(),
            arm: arm.into(),
            values,
        })
    });
    let varying: Vec<Detail> = varying.collect();
    if !varying.is_empty() {
        return Outcome::Violation { details: varying };
    }
    if trials
        .iter()
        .any(|trial| trial.measurement.kernel.is_empty())
    {
        return without("uname");
    }
    subject.unless_found(|finding| match finding.kind {
        Kind::SameKernel { .. } => Some(Detail::Workload {
            workload: finding.workload.clone(),
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
    use record::trial::Outcome as TrialOutcome;
    use record::verdict::fairness::Outcome;
    use record::verdict::finding::Kind;

    #[test]
    fn one_kernel_under_two_names_is_found() {
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Pass);
        let same_kernel = Kind::SameKernel {
            arms: vec!["6.1".into(), "7.2".into()],
        };
        assert!(is_violation(&found(same_kernel, &super::CHECK)));
        let of_one_trial = whole().with(|run| {
            if let Some(TrialOutcome::Measured(last)) =
                run.attempts.last_mut().map(|one| &mut one.outcome)
            {
                last.kernel = "6.1.0-fallback".into();
            }
        });
        assert!(is_violation(&outcome(&super::CHECK, &of_one_trial.run())));
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
