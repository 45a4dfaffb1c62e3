//! One client fewer: after the last block, each arm runs once more at the same load with one client host fewer. If there is
//! only one client host, it runs with one client thread fewer. A figure that measures the server does not change by that.
//!
//! There is one such trial for each arm. `verdict` tests whether its figure is an outlier among the arm's trials. This needs
//! clients with separate CPUs: otherwise the CPU of the missing thread goes to the server.

use std::sync::atomic::Ordering;

use anyhow::Result;
use plan::{Arm, MachineKind, WorkloadPlan};
use record::journal;
use record::journal::{Entry, Event};
use record::load_path::{ClientUnit, OneFewer, OneFewerOutcome};
use record::metric::Role;
use record::rundir::Run;
use record::trial::{Measurement, Outcome, Trial};

use super::attempt::Purpose;
use super::{JournalState, Lab};

impl Lab<'_> {
    /// Runs the trials that are still missing. Returns whether all of them have ended.
    pub(super) fn run_one_fewer(&self, state: &mut JournalState) -> Result<bool> {
        let machine = &self.plan.machine;
        // On other machines the clients share the servers' CPUs, or are not judged.
        let clients_have_cpus =
            machine.kind == MachineKind::Url || machine.is_box_with_clients_apart();
        if !clients_have_cpus || !machine.one_client_fewer {
            return Ok(true);
        }
        let run = self.load()?;
        let known = since_extension(&run.entries);
        for workload in &self.plan.workloads {
            for arm in &self.plan.arms {
                if journal::one_fewer(known, &workload.id, &arm.name).is_some() {
                    continue;
                }
                let Some((unit, left)) = self.clients_left(&run, workload, arm) else {
                    continue;
                };
                if self.interrupted.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let next = state.run_state.judged_blocks() + 1;
                // In every other block of such a plan the systems are swapped; choose one where they are not.
                let block = next + u32::from(self.plan.is_swapped(next));
                let Some(outcome) = self.measure_one_fewer(workload, arm, block, unit, left)?
                else {
                    return Ok(false);
                };
                let event = Event::OneFewer {
                    workload: workload.id.clone(),
                    arm: arm.name.clone(),
                    outcome,
                };
                self.append_event(state, event)?;
            }
        }
        Ok(true)
    }

    /// The kind of client and the number that is left. `None` if there is only one client, or the arm has no figure.
    fn clients_left(
        &self,
        run: &Run,
        workload: &WorkloadPlan,
        arm: &Arm,
    ) -> Option<(ClientUnit, u32)> {
        let load = run.attempts.iter().find_map(|record| {
            let is_wanted = record.trial.workload == workload.id && record.trial.arm == arm.name;
            match &record.outcome {
                Outcome::Measured(measurement) if is_wanted => measurement.load.as_ref(),
                Outcome::Measured(_) | Outcome::Void(_) | Outcome::Skipped(_) => None,
            }
        })?;
        let (unit, count) = match self.plan.machine.client_hosts.len() {
            0 | 1 => (ClientUnit::Thread, load.client_cpu_ns.len()),
            hosts => (ClientUnit::Host, hosts),
        };
        (count > 1).then(|| (unit, count as u32 - 1))
    }

    /// Runs the workload with one client fewer; `None` if the user stopped it.
    fn measure_one_fewer(
        &self,
        workload: &WorkloadPlan,
        arm: &Arm,
        block: u32,
        unit: ClientUnit,
        left: u32,
    ) -> Result<Option<OneFewerOutcome>> {
        let trial = Trial {
            number: 0,
            block,
            slot: 1,
            arm: arm.name.clone(),
            workload: workload.id.clone(),
        };
        let end = self.run_unrecorded(Purpose::OneFewer, workload, &trial, "one-fewer")?;
        Ok(end.map(|end| match end.outcome {
            Outcome::Measured(measurement) => one_fewer_outcome(&measurement, unit, left),
            Outcome::Void(void) => OneFewerOutcome::Failed {
                detail: void.to_string(),
            },
            Outcome::Skipped(detail) => OneFewerOutcome::Failed { detail },
        }))
    }
}

/// The entries since the run was last extended; figures from before that are too old.
fn since_extension(entries: &[Entry]) -> &[Entry] {
    let is_extension = |entry: &Entry| matches!(entry.event, Event::Extended { .. });
    let last = entries.iter().rposition(is_extension);
    &entries[last.unwrap_or(0)..]
}

fn one_fewer_outcome(measurement: &Measurement, unit: ClientUnit, left: u32) -> OneFewerOutcome {
    let mut figures = measurement.figures.iter();
    match figures.find(|figure| figure.spec.role == Role::Primary) {
        Some(figure) => OneFewerOutcome::Measured(OneFewer {
            unit,
            left,
            metric: figure.spec.name.clone(),
            metric_unit: figure.spec.unit.clone(),
            value: figure.value,
        }),
        None => OneFewerOutcome::Failed {
            detail: "the trial has no primary figure".into(),
        },
    }
}
