//! Gates: what makes an arm fail however fast it is. A boot that fails is no noise.

use std::collections::BTreeSet;

use record::load::Fault;
use record::rundir::Run;
use record::trial::Measurement;
use record::verdict::warning::{Gate, GateFailure};

use crate::topics::metrics::pair::Measured;

/// Blocks in which an arm gave no figure while the baseline always did, and kinds of faults that only an arm has.
pub(crate) fn of(run: &Run, measured: &Measured<'_>) -> Vec<Gate> {
    let mut gates = Vec::new();
    for workload in &run.plan.workloads {
        let missing = |arm: &str| measured.missing(&workload.id, arm);
        let baseline = &run.plan.baseline;
        let known = faults(run, (&workload.id, baseline), |_| true);
        let always =
            missing(baseline).is_empty() && !measured.of_arm(&workload.id, baseline).is_empty();
        for arm in run.plan.arms.iter().filter(|arm| arm.name != *baseline) {
            let mut gate = |failure: GateFailure| {
                gates.push(Gate {
                    workload: workload.id.clone(),
                    arm: arm.name.clone(),
                    baseline: baseline.clone(),
                    failure,
                });
            };
            let blocks = missing(&arm.name);
            if always && !blocks.is_empty() {
                gate(GateFailure::MissingFigures {
                    blocks: blocks.into_iter().collect(),
                });
            }
            // Faults of planned disturbances come and go by chance.
            let has_own = |one: &Measurement| one.unplanned_failures() > 0;
            let faults: Vec<Fault> = faults(run, (&workload.id, &arm.name), has_own)
                .difference(&known)
                .filter(|fault| !fault.is_clients_own())
                .copied()
                .collect();
            if always && !faults.is_empty() {
                gate(GateFailure::NewFaults { faults });
            }
        }
    }
    gates
}

/// Kinds of faults that an arm's clients met in these trials of it.
fn faults(
    run: &Run,
    (workload, arm): (&str, &str),
    counts: fn(&Measurement) -> bool,
) -> BTreeSet<Fault> {
    let its = run
        .attempts
        .iter()
        .filter(|record| record.trial.workload == workload && record.trial.arm == arm);
    let measured = its.filter_map(|record| record.outcome.measured());
    let counted = measured.filter(|measurement| counts(measurement));
    let met = counted.filter_map(|measurement| measurement.load.as_ref());
    let kinds = met.flat_map(|load| load.faults.iter().filter(|(_, count)| **count > 0));
    kinds.map(|(fault, _)| *fault).collect()
}
