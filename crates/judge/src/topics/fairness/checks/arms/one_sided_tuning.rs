//! All arms have settings of the same kinds, or none has any.

use std::collections::BTreeSet;

use plan::setting::{ArmSetting, SettingKind};
use plan::{Arm, Plan};
use record::verdict::fairness::{AcceptedBy, Detail, Outcome};

use crate::topics::fairness::subject::kernels_differ;
use crate::topics::fairness::{Check, Foreseen, Group, Judge};

pub(crate) const CHECK: Check = Check {
    id: "one-sided-tuning",
    group: Group::Arms,
    must_hold: "All arms have settings of the same kinds, or none has any. A tuned kernel may also run untuned beside it. A handicap (`mem=`, `maxcpus=`) is no tuning. One-sided settings are accepted if every arm states `tuned_by` and `tuning_reason`.",
    why: "Mindcraft 1999: one side was tuned by its vendor's engineers, the other by nobody.",
    mend: "Tune every arm or none, or compare the settings on one kernel. Or state `tuned_by` and `tuning_reason` in every arm.",
    reads: "all settings of the arms except `cpus` and injected slowdowns",
    judge: Judge::Plan(one_sided),
    foreseen: Foreseen::Nothing,
};

fn one_sided(plan: &Plan) -> Outcome {
    if !kernels_differ(plan) {
        return Outcome::Passed;
    }
    // A kernel that runs tuned and untuned is compared with itself, so its settings are part of the question.
    let is_of_one_way = |arm: &&Arm| {
        let mut same = plan.arms.iter().filter(|other| other.kernel == arm.kernel);
        same.all(|other| kinds(other).is_empty() == kinds(arm).is_empty())
    };
    let of_one_way: Vec<&Arm> = plan.arms.iter().filter(is_of_one_way).collect();
    let Some(one_sided) = one_sided_among(&of_one_way) else {
        return Outcome::Passed;
    };
    let mut details = vec![one_sided];
    // It is accepted only if every arm states who tuned it and why.
    if !plan.arms.iter().all(|arm| arm.tuned.is_stated()) {
        return Outcome::Failed { details };
    }
    details.extend(plan.arms.iter().filter_map(|arm| {
        Some(Detail::Tuned {
            arm: arm.name.clone(),
            by: arm.tuned.by.clone()?,
            reason: arm.tuned.reason.clone()?,
        })
    }));
    let by = AcceptedBy::Plan;
    Outcome::Accepted { by, details }
}

/// Arms with and without settings; only those of one kind, if the arms without it have other settings.
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

/// Kernel parameters that take resources away.
const TAKING: [&str; 5] = ["mem=", "memmap=", "maxcpus=", "nr_cpus=", "nosmp"];

/// The kinds of settings that an arm has. Settings that take memory or CPUs away do not count.
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
        let result = |change: fn(&mut record::rundir::Run)| {
            outcome(&super::CHECK, &whole().with(change).run())
        };
        assert_eq!(result(|_| {}), Outcome::Passed);
        assert!(is_failed(&result(
            |run| run.plan.arms[1].cmdline = "quiet".into()
        )));
        // Settings of another kind on the other side do not help.
        assert!(is_failed(&result(|run| {
            run.plan.arms[0].tuning.env = [("A".into(), "1".into())].into();
            run.plan.arms[1].cmdline = "mitigations=off".into();
        })));
        // Each kind of setting counts.
        assert!(is_failed(&result(|run| run.plan.arms[1]
            .tuning
            .scheduler =
            Some(plan::Scheduler::Fifo))));
        assert!(is_failed(&result(|run| {
            run.plan.arms[1].tuning.debugfs = [("sched/features".into(), "NO_X".into())].into();
        })));
        let both = |run: &mut record::rundir::Run| {
            run.plan
                .arms
                .iter_mut()
                .for_each(|arm| arm.cmdline = "quiet".into());
        };
        assert_eq!(result(both), Outcome::Passed);
        // As at Mindcraft: one side is tuned, the other has a handicap.
        let handicap = |run: &mut record::rundir::Run| {
            run.plan.arms[0].sysctl = [("net.core.somaxconn".into(), "4096".into())].into();
            run.plan.arms[1].cmdline = "mem=256M".into();
            run.plan.arms[1].tuning.nofile = Some(64);
        };
        assert!(is_failed(&result(handicap)));
        let with_itself = |run: &mut record::rundir::Run| {
            let mut third = run.plan.arms[1].clone();
            third.name = "7.2+quiet".into();
            third.cmdline = "quiet".into();
            run.plan.arms.push(third);
        };
        assert_eq!(result(with_itself), Outcome::Passed);
        let question = |run: &mut record::rundir::Run| {
            one_kernel(run);
            run.plan.arms[1].cmdline = "quiet".into();
        };
        assert_eq!(result(question), Outcome::Passed);
    }

    #[test]
    fn one_tuned_side_is_declared_only_where_both_sides_are_explained() {
        let result = |explained: usize| {
            let run = whole().with(|run| {
                run.plan.arms[1].cmdline = "quiet".into();
                for arm in run.plan.arms.iter_mut().rev().take(explained) {
                    arm.tuned.by = Some("its vendor".into());
                    arm.tuned.reason = Some("the console is slow".into());
                }
            });
            outcome(&super::CHECK, &run.run())
        };
        assert!(is_failed(&result(0)) && is_failed(&result(1)));
        assert!(is_accepted(&result(2)));
    }
}
