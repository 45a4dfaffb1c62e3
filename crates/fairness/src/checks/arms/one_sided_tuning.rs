//! Are all sides tuned, or none?

use plan::{Arm, Plan, Tuning};
use record::verdict::fairness::{Declaration, Detail, Outcome};

use crate::subject::kernels_differ;
use crate::{Check, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "one-sided-tuning",
    group: Group::Arms,
    question: "Are all sides tuned, or none?",
    reads: "the arms' `cmdline`, `sysctl`, `config`, `env`, `program`, `tuned_by`, `tuning_reason`",
    passes: "kernels or systems are compared and no arm, or every arm, has settings of its own; declared where every arm, also one without settings, says `tuned_by` and `tuning_reason`",
    why: "Mindcraft 1999: one side was tuned by its vendor's engineers, the other by nobody.",
    mend: "give each arm settings, best by somebody who wants it to win, or none; or compare the settings on one kernel; or say of every arm by whom it was tuned or left alone, and why",
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
    let mut details = vec![Detail::OneSided {
        tuned: names(tuned),
        untuned: names(untuned),
    }];
    // That one side was tuned by its vendor is no excuse before it is said of both who tuned them and why.
    if !plan.arms.iter().all(|arm| arm.tuned.is_stated()) {
        return Outcome::Violation { details };
    }
    details.extend(plan.arms.iter().filter_map(|arm| {
        Some(Detail::Tuned {
            arm: arm.name.clone(),
            by: arm.tuned.by.clone()?,
            reason: arm.tuned.reason.clone()?,
        })
    }));
    let by = Declaration::Plan;
    Outcome::Declared { by, details }
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

    #[test]
    fn one_tuned_side_is_declared_only_where_both_sides_are_explained() {
        let told = |explained: usize| {
            let run = whole().with(|run| {
                run.plan.arms[1].cmdline = "quiet".into();
                for arm in run.plan.arms.iter_mut().rev().take(explained) {
                    arm.tuned.by = Some("its vendor".into());
                    arm.tuned.reason = Some("the console is slow".into());
                }
            });
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_violation(&told(0)) && is_violation(&told(1)));
        assert!(is_declared(&told(2)));
    }
}
