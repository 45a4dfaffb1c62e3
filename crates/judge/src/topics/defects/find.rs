//! Compares the defects of each arm with those of the baseline.
//!
//! All attempts count, including failed ones and those of blocks that were run again: a disturbance does not cause a kernel oops.

use std::collections::BTreeMap;

use defects::{Compared, Defect, Kind};
use record::defect::{FoundDefect, KernelLog};
use record::rundir::{Run, TrialRecord};
use record::trial::Outcome;
use record::verdict::defects::{ArmDefect, ArmLogs, Defects, FirstReport, Side, Sides};

/// The defects of all arms, and which logs were read.
pub(crate) fn of(run: &Run) -> Defects {
    let baseline = Reports::of(run, &run.plan.baseline);
    let mut defects = Defects {
        logs: vec![logs(run, &run.plan.baseline)],
        found: Vec::new(),
    };
    for arm in &run.plan.arms {
        if arm.name == run.plan.baseline {
            continue;
        }
        defects.logs.push(logs(run, &arm.name));
        let reports = Reports::of(run, &arm.name);
        for compared in defects::new_in(&reports.defects, &baseline.defects) {
            let defect = arm_defect(run, &arm.name, &reports, &baseline, compared);
            defects.found.push(defect);
        }
    }
    defects
}

/// Attempts at an arm's trials, without those that were skipped.
fn attempts<'r>(run: &'r Run, arm: &'r str) -> impl Iterator<Item = &'r TrialRecord> {
    let all = run.attempts.iter().chain(&run.invalidated);
    all.filter(move |attempt| {
        attempt.trial.arm == arm && !matches!(attempt.outcome, Outcome::Skipped(_))
    })
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

/// All reports of defects of one arm.
struct Reports<'r> {
    defects: Vec<Defect>,
    by_key: BTreeMap<(Kind, String), Vec<(&'r TrialRecord, &'r FoundDefect)>>,
}

impl<'r> Reports<'r> {
    fn of(run: &'r Run, arm: &'r str) -> Self {
        let mut reports = Self {
            defects: Vec::new(),
            by_key: BTreeMap::new(),
        };
        for attempt in attempts(run, arm) {
            for defect in attempt.defects.iter().flat_map(|log| &log.found) {
                reports.defects.push(defect.to_defect());
                let same = reports.by_key.entry((defect.kind, defect.top.clone()));
                same.or_default().push((attempt, defect));
            }
        }
        reports
    }

    fn of_defect(&self, defect: &Compared) -> &[(&'r TrialRecord, &'r FoundDefect)] {
        let reports = self.by_key.get(&(defect.kind, defect.top.clone()));
        reports.map_or(&[], Vec::as_slice)
    }
}

fn arm_defect(
    run: &Run,
    arm: &str,
    reports: &Reports<'_>,
    baseline: &Reports<'_>,
    compared: Compared,
) -> ArmDefect {
    let in_arm = reports.of_defect(&compared);
    let in_baseline = baseline.of_defect(&compared);
    let (attempt, first) = in_arm
        .iter()
        .chain(in_baseline)
        .next()
        .expect("what is compared was told by one of them");
    let has_defect = |workload: &str| {
        let mut all = in_arm.iter().chain(in_baseline);
        all.any(|(attempt, _)| attempt.trial.workload == workload)
    };
    let workloads = run.plan.workloads.iter();
    let workloads = workloads.map(|workload| workload.id.clone());
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
        workloads: workloads.filter(|id| has_defect(id)).collect(),
        first: FirstReport {
            attempt: attempt.attempt_name(),
            at: first.first,
            ok_per_s: first.ok_per_s,
            lines: first.lines.clone(),
        },
        top: compared.top,
    }
}

/// Counts attempts. An attempt may have two reports, from its kernel and its console, but counts once.
fn count(reports: &[(&TrialRecord, &FoundDefect)]) -> u32 {
    let names = reports.iter().map(|(attempt, _)| attempt.attempt_name());
    let mut names: Vec<String> = names.collect();
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

    /// Judges two blocks, in which each trial of an arm reports that arm's defects.
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
    fn a_defect_is_reported_for_the_arm_that_has_it() {
        let oops = found(Kind::Oops, "tcp_ack", 2);
        let hung = found(Kind::HungTask, "io_schedule", 1);
        let warning = found(Kind::Warning, "ext4_write", 1);
        let judged = judged(&[warning.clone(), oops.clone()], &[warning, hung]);
        let sides: Vec<_> = judged
            .found
            .iter()
            .map(|defect| (defect.kind, defect.side))
            .collect();
        assert_eq!(
            sides,
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
    fn unread_logs_do_not_count_as_clean() {
        let run = RunBuilder::new().blocks(&[[1.0, 1.0]]).run();
        let judged = of(&run);
        assert_eq!((judged.read(), judged.logs[0].unread), (0, 1));
        assert_eq!(judged.found, []);
    }
}
