//! Are all sides tuned, or none?

use std::collections::BTreeSet;

use plan::setting::{ArmSetting, SettingKind};
use plan::{Arm, Plan};
use record::verdict::fairness::{Declaration, Detail, Outcome};

use crate::topics::fairness::subject::kernels_differ;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "one-sided-tuning",
    group: Group::Arms,
    question: "Are all sides tuned, or none?",
    reads: "all settings of the arms but `cpus` and injected slowdowns, `tuned_by`, `tuning_reason`",
    passes: "kernels or systems are compared and no arm, or every arm, has settings of its own, of the same kinds (parameters, sysctls, configuration, ...), or a tuned kernel is there untuned as well; what takes memory, CPUs or time away (`mem=`, `maxcpus=`, `injected_slowdown`, ...) tunes nothing; declared where every arm, also one without settings, says `tuned_by` and `tuning_reason`",
    why: "Mindcraft 1999: one side was tuned by its vendor's engineers, the other by nobody.",
    mend: "give each arm settings, best by somebody who wants it to win, or none; or compare the settings on one kernel; or say of every arm by whom it was tuned or left alone, and why",
    judge: Judge::Plan(one_sided),
    foreseen: Foreseen::Nothing,
};

fn one_sided(plan: &Plan) -> Outcome {
    if !kernels_differ(plan) {
        return Outcome::Pass;
    }
    // A kernel that is there both ways is compared with itself: what its settings do is part of the question.
    let is_of_one_way = |arm: &&Arm| {
        let mut same = plan.arms.iter().filter(|one| one.kernel == arm.kernel);
        same.all(|one| kinds(one).is_empty() == kinds(arm).is_empty())
    };
    let of_one_way: Vec<&Arm> = plan.arms.iter().filter(is_of_one_way).collect();
    let Some(one_sided) = one_sided_among(&of_one_way) else {
        return Outcome::Pass;
    };
    let mut details = vec![one_sided];
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

/// Arms with settings and arms without; of one kind, where those without it have others.
fn one_sided_among(arms: &[&Arm]) -> Option<Detail> {
    let part = |has: &dyn Fn(&Arm) -> bool, settings: Option<SettingKind>| {
        let (tuned, untuned): (Vec<&Arm>, Vec<&Arm>) = arms.iter().partition(|arm| has(arm));
        let names = |arms: Vec<&Arm>| arms.into_iter().map(|arm| arm.name.clone()).collect();
        (!tuned.is_empty() && !untuned.is_empty()).then(|| Detail::OneSided {
            tuned: names(tuned),
            untuned: names(untuned),
            settings,
        })
    };
    let all: BTreeSet<SettingKind> = arms.iter().flat_map(|arm| kinds(arm)).collect();
    let of_any = part(&|arm| !kinds(arm).is_empty(), None);
    let of_kind = |kind| part(&|arm| kinds(arm).contains(&kind), Some(kind));
    of_any.or_else(|| all.into_iter().find_map(of_kind))
}

/// Kernel parameters that take something away.
const TAKING: [&str; 5] = ["mem=", "memmap=", "maxcpus=", "nr_cpus=", "nosmp"];

/// The kinds of settings that an arm has. What takes memory or CPUs away from it is none.
fn kinds(arm: &Arm) -> BTreeSet<SettingKind> {
    let takes = |word: &str| TAKING.iter().any(|taking| word.starts_with(taking));
    let kind = |setting: ArmSetting| {
        let is_parameter = setting.kind == SettingKind::CommandLine;
        let only_takes = is_parameter && setting.value.split_whitespace().all(takes);
        setting.kind.tuned_alike().filter(|_| !only_takes)
    };
    arm.settings().into_iter().filter_map(kind).collect()
}

#[cfg(test)]
mod tests {
    use crate::topics::fairness::tests::*;
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
        // What one side has of another kind is no excuse.
        assert!(is_violation(&told(|run| {
            run.plan.arms[0].tuning.env = [("A".into(), "1".into())].into();
            run.plan.arms[1].cmdline = "mitigations=off".into();
        })));
        // Each kind of setting counts.
        assert!(is_violation(&told(|run| run.plan.arms[1]
            .tuning
            .scheduler =
            Some(plan::Scheduler::Fifo))));
        assert!(is_violation(&told(|run| {
            run.plan.arms[1].tuning.debugfs = [("sched/features".into(), "NO_X".into())].into();
        })));
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
