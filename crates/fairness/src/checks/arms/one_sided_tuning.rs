//! Are all sides tuned, or none?

use plan::{Arm, Plan, Tuning};
use record::verdict::fairness::{Detail, Outcome};

use crate::subject::kernels_differ;
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "one-sided-tuning",
    group: Group::Arms,
    question: "Are all sides tuned, or none?",
    reads: "the arms' `cmdline`, `sysctl`, `config`, `env`, `programs`",
    passes: "kernels or systems are compared and no arm, or every arm, has settings of its own",
    why: "Mindcraft 1999: one side was tuned by its vendor's engineers, the other by nobody.",
    mend: "give each arm settings, best by somebody who wants it to win, or none; or compare the settings on one kernel",
    judge: Judge::Plan(one_sided),
};

fn one_sided(plan: &Plan) -> Outcome {
    if !kernels_differ(plan) {
        return Outcome::Pass;
    }
    let (tuned, untuned): (Vec<_>, Vec<_>) = plan.arms.iter().partition(|arm| is_tuned(arm));
    if tuned.is_empty() || untuned.is_empty() {
        return Outcome::Pass;
    }
    let names = |arms: Vec<&Arm>| arms.into_iter().map(|arm| arm.name.clone()).collect();
    Outcome::Violation {
        details: vec![Detail::OneSided {
            tuned: names(tuned),
            untuned: names(untuned),
        }],
    }
}

fn is_tuned(arm: &Arm) -> bool {
    !arm.cmdline.is_empty() || !arm.sysctl.is_empty() || arm.tuning != Tuning::default()
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use record::verdict::fairness::Outcome;

    #[test]
    fn one_tuned_side_is_found() {
        let told = |change: fn(&mut record::rundir::Run)| {
            outcome(&super::CHECK, &whole().with(change).run())
        };
        assert_eq!(told(|_| {}), Outcome::Pass);
        assert!(is_violation(&told(
            |run| run.plan.arms[1].cmdline = "quiet".into()
        )));
        let both = |run: &mut record::rundir::Run| {
            run.plan
                .arms
                .iter_mut()
                .for_each(|arm| arm.cmdline = "quiet".into());
        };
        assert_eq!(told(both), Outcome::Pass);
        let question = |run: &mut record::rundir::Run| {
            one_kernel(run);
            run.plan.arms[1].cmdline = "quiet".into();
        };
        assert_eq!(told(question), Outcome::Pass);
    }
}
