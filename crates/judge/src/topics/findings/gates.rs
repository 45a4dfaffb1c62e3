//! Gates: what makes an arm fail however fast it is. A boot that fails is no noise.

use std::collections::BTreeSet;

use record::load::Fault;
use record::rundir::{Run, TrialRecord};
use record::trial::Measurement;
use record::verdict::finding::{Finding, Kind};

use crate::topics::metrics::measured::Measured;

/// Arms without a figure in some block while the baseline always gave one, and classes of faults that only an arm has.
pub(crate) fn of(run: &Run, measured: &Measured<'_>) -> Vec<Finding> {
    let mut gates = Vec::new();
    let baseline = &run.plan.baseline;
    for workload in run.plan.workloads.iter().map(|workload| &workload.id) {
        if !measured.missing(workload, baseline).is_empty()
            || measured.of_arm(workload, baseline).is_empty()
        {
            continue;
        }
        let known = faults(run, workload, baseline, |_| true);
        for arm in run.plan.arms.iter().filter(|arm| arm.name != *baseline) {
            let mut gate = |kind| gates.push(Finding::new(workload, &arm.name, kind));
            let blocks: Vec<u32> = measured.missing(workload, &arm.name).into_iter().collect();
            if !blocks.is_empty() {
                gate(Kind::MissingFigures {
                    baseline: baseline.clone(),
                    blocks,
                });
            }
            // Faults of planned disturbances come and go by chance.
            let is_unplanned = |trial: &Measurement| trial.unplanned_failures() > 0;
            let faults: Vec<Fault> = faults(run, workload, &arm.name, is_unplanned)
                .difference(&known)
                .filter(|fault| !fault.is_clients_own())
                .copied()
                .collect();
            if !faults.is_empty() {
                gate(Kind::NewFaults {
                    baseline: baseline.clone(),
                    faults,
                });
            }
        }
    }
    gates
}

/// Classes of faults that an arm's clients met in the trials that count.
fn faults(
    run: &Run,
    workload: &str,
    arm: &str,
    counts: fn(&Measurement) -> bool,
) -> BTreeSet<Fault> {
    let is_of_arm =
        |record: &&TrialRecord| record.trial.workload == workload && record.trial.arm == arm;
    let attempts = run.attempts.iter().filter(is_of_arm);
    let measured = attempts.filter_map(|record| record.outcome.measured());
    let loads = measured
        .filter(|measurement| counts(measurement))
        .filter_map(|measurement| measurement.load.as_ref());
    let faults = loads.flat_map(|load| load.faults.iter().filter(|(_, count)| **count > 0));
    faults.map(|(fault, _)| *fault).collect()
}
