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
    passes: "kernels or systems are compared and no arm, or every arm, has settings of its own, or a tuned kernel is there untuned as well; what takes memory, CPUs, files or time away (`mem=`, `maxcpus=`, `nofile`, ...) tunes nothing; declared where every arm, also one without settings, says `tuned_by` and `tuning_reason`",
    why: "Mindcraft 1999: one side was tuned by its vendor's engineers, the other by nobody.",
    mend: "give each arm settings, best by somebody who wants it to win, or none; or compare the settings on one kernel; or say of every arm by whom it was tuned or left alone, and why",
    judge: Judge::Plan(one_sided),
};

fn one_sided(plan: &Plan) -> Outcome {
    if !kernels_differ(plan) {
        return Outcome::Pass;
    }
    // A kernel that is there both ways is compared with itself: what its settings do is part of the question.
    let is_of_one_way = |arm: &&Arm| {
        let mut same = plan.arms.iter().filter(|one| one.kernel == arm.kernel);
        same.all(|one| is_tuned(one) == is_tuned(arm))
    };
    let of_one_way = plan.arms.iter().filter(is_of_one_way);
    let (tuned, untuned): (Vec<_>, Vec<_>) = of_one_way.partition(|arm| is_tuned(arm));
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

/// Kernel parameters that take something away.
const TAKING: [&str; 5] = ["mem=", "memmap=", "maxcpus=", "nr_cpus=", "nosmp"];

fn is_tuned(arm: &Arm) -> bool {
    let takes = |word: &str| TAKING.iter().any(|taking| word.starts_with(taking));
    let tuning = Tuning {
        nofile: None,
        injected_slowdown: 0.0,
        injected_period: None,
        injected_cost: None,
        ..arm.tuning.clone()
    };
    !arm.cmdline.split_whitespace().all(takes)
        || !arm.sysctl.is_empty()
        || tuning != Tuning::default()
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
        // Mindcraft's way: what is tuned on one side is taken away on the other.
        let handicap = |run: &mut record::rundir::Run| {
            run.plan.arms[0].sysctl = [("net.core.somaxconn".into(), "4096".into())].into();
            run.plan.arms[1].cmdline = "mem=256M".into();
            run.plan.arms[1].tuning.nofile = Some(64);
        };
        assert!(is_violation(&told(handicap)));
        let with_itself = |run: &mut record::rundir::Run| {
            let mut third = run.plan.arms[1].clone();
            third.name = "7.2+quiet".into();
            third.cmdline = "quiet".into();
            run.plan.arms.push(third);
        };
        assert_eq!(told(with_itself), Outcome::Pass);
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
