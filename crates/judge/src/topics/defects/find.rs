//! Which defects an arm has that the baseline has not. All attempts count, failed ones above all, and those of blocks that were
//! run again: what disturbs a figure makes no kernel oops.

use std::collections::BTreeMap;

use defects::{Compared, Defect, Kind};
use record::defect::{FoundDefect, KernelLog};
use record::rundir::{Run, TrialRecord};
use record::trial::Outcome;
use record::verdict::defects::{ArmDefect, ArmLogs, Defects, FirstReport, Side, Sides};

/// What is known of all arms' defects.
pub(crate) fn of(run: &Run) -> Defects {
    let baseline = Told::of(run, &run.plan.baseline);
    let mut found = Vec::new();
    for arm in run
        .plan
        .arms
        .iter()
        .filter(|arm| arm.name != run.plan.baseline)
    {
        let told = Told::of(run, &arm.name);
        let compared = defects::new_in(&told.defects, &baseline.defects);
        let compared = compared.into_iter();
        found.extend(compared.map(|one| of_arm(run, (&arm.name, &told), &baseline, one)));
    }
    let first = std::iter::once(run.plan.baseline.as_str());
    let others = run.plan.arms.iter().map(|arm| arm.name.as_str());
    let others = others.filter(|arm| *arm != run.plan.baseline);
    Defects {
        logs: first.chain(others).map(|arm| logs(run, arm)).collect(),
        found,
    }
}

/// Attempts at an arm's trials that were booted.
fn attempts<'r>(run: &'r Run, arm: &'r str) -> impl Iterator<Item = &'r TrialRecord> {
    let all = run.attempts.iter().chain(&run.struck);
    all.filter(move |one| one.trial.arm == arm && !matches!(one.outcome, Outcome::Skipped(_)))
}

fn logs(run: &Run, arm: &str) -> ArmLogs {
    let mut logs = ArmLogs {
        arm: arm.into(),
        read: 0,
        console: 0,
        unread: 0,
        lost: 0,
    };
    for attempt in attempts(run, arm) {
        match attempt.defects.as_ref().map(|log| &log.kernel_log) {
            Some(KernelLog::Read { lost }) => {
                logs.read += 1;
                logs.lost = logs.lost.saturating_add(*lost);
            }
            Some(KernelLog::Console) => logs.console += 1,
            Some(KernelLog::Unread(_)) | None => logs.unread += 1,
        }
    }
    logs
}

/// All that one arm told.
struct Told<'r> {
    defects: Vec<Defect>,
    by_key: BTreeMap<(Kind, String), Vec<(&'r TrialRecord, &'r FoundDefect)>>,
}

impl<'r> Told<'r> {
    fn of(run: &'r Run, arm: &'r str) -> Self {
        let mut told = Self {
            defects: Vec::new(),
            by_key: BTreeMap::new(),
        };
        for attempt in attempts(run, arm) {
            for found in attempt.defects.iter().flat_map(|log| &log.found) {
                told.defects.push(found.to_defect());
                let its = told.by_key.entry((found.kind, found.top.clone()));
                its.or_default().push((attempt, found));
            }
        }
        told
    }

    fn its(&self, one: &Compared) -> &[(&'r TrialRecord, &'r FoundDefect)] {
        let its = self.by_key.get(&(one.kind, one.top.clone()));
        its.map_or(&[], Vec::as_slice)
    }
}

fn of_arm(
    run: &Run,
    (arm, told): (&str, &Told<'_>),
    baseline: &Told<'_>,
    compared: Compared,
) -> ArmDefect {
    let (in_arm, in_baseline) = (told.its(&compared), baseline.its(&compared));
    let (attempt, first) = in_arm
        .iter()
        .chain(in_baseline)
        .next()
        .expect("what is compared was told by one of them");
    let is_told_by = |workload: &str| {
        let mut all = in_arm.iter().chain(in_baseline);
        all.any(|(attempt, _)| attempt.trial.workload == workload)
    };
    let workloads = run.plan.workloads.iter().map(|one| one.id.clone());
    ArmDefect {
        arm: arm.into(),
        side: match compared.side() {
            defects::Side::OnlyArm => Side::OnlyArm,
            defects::Side::Both => Side::Both,
            defects::Side::OnlyBaseline => Side::OnlyBaseline,
        },
        kind: compared.kind,
        severity: compared.severity,
        reports: Sides {
            arm: compared.in_arm,
            baseline: compared.in_baseline,
        },
        trials: Sides {
            arm: count(in_arm),
            baseline: count(in_baseline),
        },
        is_certain: compared.is_certain,
        workloads: workloads.filter(|own| is_told_by(own)).collect(),
        first: FirstReport {
            attempt: attempt.attempt_name(),
            at: first.first,
            ok_per_s: first.ok_per_s,
            lines: first.lines.clone(),
        },
        top: compared.top,
    }
}

/// Attempts, each once, although its kernel and its console may both have told.
fn count(told: &[(&TrialRecord, &FoundDefect)]) -> u32 {
    let mut names: Vec<String> = told.iter().map(|(one, _)| one.attempt_name()).collect();
    names.dedup();
    names.len() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::defect::{DefectLog, DefectSource, Severity, When};
    use record::fixtures::builder::RunBuilder;

    fn found(kind: Kind, top: &str, count: u64) -> FoundDefect {
        FoundDefect {
            source: DefectSource::Kernel,
            kind,
            severity: Severity::Defect,
            top: top.into(),
            count,
            first: When::default(),
            last: When::default(),
            ok_per_s: None,
            lines: vec![format!("{} in {top}", kind.name())],
        }
    }

    /// Two blocks; each arm's trials told of these.
    fn judged(old: &[FoundDefect], new: &[FoundDefect]) -> Defects {
        let builder = RunBuilder::new().blocks(&[[1.0, 1.0], [1.0, 1.0]]);
        let mut run = builder.run();
        for attempt in &mut run.attempts {
            let is_old = attempt.trial.arm == run.plan.baseline;
            attempt.defects = Some(DefectLog {
                kernel_log: KernelLog::Read { lost: 1 },
                found: if is_old { old } else { new }.to_vec(),
            });
        }
        of(&run)
    }

    #[test]
    fn a_defect_is_told_of_the_arm_that_has_it() {
        let oops = found(Kind::Oops, "tcp_ack", 2);
        let hung = found(Kind::HungTask, "io_schedule", 1);
        let warning = found(Kind::Warning, "ext4_write", 1);
        let judged = judged(&[warning.clone(), oops.clone()], &[warning, hung]);
        let told: Vec<_> = judged
            .found
            .iter()
            .map(|one| (one.kind, one.side))
            .collect();
        assert_eq!(
            told,
            [
                (Kind::HungTask, Side::OnlyArm),
                (Kind::Warning, Side::Both),
                (Kind::Oops, Side::OnlyBaseline)
            ]
        );
        let gone = &judged.found[2];
        assert_eq!((gone.reports.arm, gone.reports.baseline), (0, 4));
        assert_eq!((gone.trials.arm, gone.trials.baseline), (0, 2));
        assert_eq!(gone.first.lines, ["oops in tcp_ack"]);
        assert_eq!(judged.read(), 4);
        assert_eq!(judged.logs[1].lost, 2);
    }

    #[test]
    fn logs_that_nobody_read_are_not_known_and_not_clean() {
        let run = RunBuilder::new().blocks(&[[1.0, 1.0]]).run();
        let judged = of(&run);
        assert_eq!((judged.read(), judged.logs[0].unread), (0, 1));
        assert_eq!(judged.found, []);
    }
}
