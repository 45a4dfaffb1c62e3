//! Each arm runs the kernel that it names, in all of its trials.

use record::verdict::fairness::{Detail, Missing, Outcome};
use record::verdict::finding::Kind;
use record::verdict::weighed::Seen;

use crate::topics::fairness::subject::{Subject, is_of_network, unknown, without};
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "kernel-that-ran",
    group: Group::Arms,
    must_hold: "Each arm runs the kernel that it names, in all of its trials.",
    why: "A boot loader that falls back on the old kernel compares it with itself.",
    mend: "Look at `trials/NNN/console.log`.",
    reads: "the kernel's release in each trial, and the build ids of kernels of one release",
    judge: Judge::Run(kernel_that_ran),
    foreseen: Foreseen::Nothing,
};

fn kernel_that_ran(subject: &Subject<'_>) -> Outcome {
    if is_of_network(&subject.run.plan) && subject.all_are_measured() {
        return unknown(Missing::SystemOnNetwork);
    }
    let trials: Vec<_> = subject.trials().collect();
    let varying = subject.arms().filter_map(|arm| {
        let of_arm = trials.iter().filter(|trial| trial.arm == arm);
        let values =
            Seen::of(of_arm.map(|trial| (trial.number, Some(trial.measurement.kernel.clone()))));
        (values.len() > 1).then(|| Detail::Varies {
            fact: "uname".into(),
            arm: arm.into(),
            values,
        })
    });
    let varying: Vec<Detail> = varying.collect();
    if !varying.is_empty() {
        return Outcome::Failed { details: varying };
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
        assert_eq!(outcome(&super::CHECK, &whole().run()), Outcome::Passed);
        let same_kernel = Kind::SameKernel {
            arms: vec!["6.1".into(), "7.2".into()],
        };
        assert!(is_failed(&found(same_kernel, &super::CHECK)));
        let of_one_trial = whole().with(|run| {
            if let Some(TrialOutcome::Measured(last)) =
                run.attempts.last_mut().map(|record| &mut record.outcome)
            {
                last.kernel = "6.1.0-fallback".into();
            }
        });
        assert!(is_failed(&outcome(&super::CHECK, &of_one_trial.run())));
        assert!(is_unknown(&outcome(&super::CHECK, &empty().run())));
    }
}
