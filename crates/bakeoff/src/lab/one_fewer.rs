//! One client fewer: each arm once more, after the last block, with one client host less at the same load, or where there is one
//! host with one client thread less. A figure that is the server's does not move by that.
//!
//! One trial an arm: `verdict` asks whether it lies further from the arm's trials than those scatter. Only where clients have CPUs of
//! their own; elsewhere a thread that is left out leaves its CPU to the server.

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
use super::{Book, Lab};

impl Lab<'_> {
    /// Runs what is still owed of these; whether all of them have ended.
    pub(super) fn run_one_fewer(&self, book: &mut Book) -> Result<bool> {
        let machine = &self.plan.machine;
        // Elsewhere they are on the servers' CPUs, or nothing is judged of them.
        let have_cpus = machine.kind == MachineKind::Url || machine.is_box_with_clients_apart();
        if !have_cpus || !machine.one_client_fewer {
            return Ok(true);
        }
        let run = self.load()?;
        let known = since_extension(&run.entries);
        for workload in &self.plan.workloads {
            for arm in &self.plan.arms {
                if journal::one_fewer(known, &workload.id, &arm.name).is_some() {
                    continue;
                }
                let Some(clients) = self.clients_left(&run, workload, arm) else {
                    continue;
                };
                if self.interrupted.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let next = book.run_state.looked() + 1;
                // Systems that are exchanged from block to block are measured where they stand as they are named.
                let block = next + u32::from(self.plan.is_swapped(next));
                let Some(outcome) = self.measure_one_fewer(workload, arm, block, clients)? else {
                    return Ok(false);
                };
                let event = Event::OneFewer {
                    workload: workload.id.clone(),
                    arm: arm.name.clone(),
                    outcome,
                };
                self.note(book, event)?;
            }
        }
        Ok(true)
    }

    /// How many clients of which kind are left without one; `None` where none can be missed, or the arm gave no figure.
    fn clients_left(
        &self,
        run: &Run,
        workload: &WorkloadPlan,
        arm: &Arm,
    ) -> Option<(ClientUnit, u32)> {
        let is_its = |trial: &Trial| trial.workload == workload.id && trial.arm == arm.name;
        let mut its = run.attempts.iter().filter(|one| is_its(&one.trial));
        let load = its.find_map(|one| match &one.outcome {
            Outcome::Measured(measurement) => measurement.load.as_ref(),
            Outcome::Void(_) | Outcome::Skipped(_) => None,
        })?;
        let (unit, count) = match self.plan.machine.client_hosts.len() {
            0 | 1 => (ClientUnit::Thread, load.client_cpu_ns.len()),
            hosts => (ClientUnit::Host, hosts),
        };
        (count > 1).then(|| (unit, count as u32 - 1))
    }

    /// Runs the workload with a client fewer; `None` when the user stopped it.
    fn measure_one_fewer(
        &self,
        workload: &WorkloadPlan,
        arm: &Arm,
        block: u32,
        clients: (ClientUnit, u32),
    ) -> Result<Option<OneFewerOutcome>> {
        let trial = Trial {
            number: 0,
            block,
            slot: 1,
            arm: arm.name.clone(),
            workload: workload.id.clone(),
        };
        let end = self.run_apart(Purpose::OneFewer, (workload, &trial), "one-fewer")?;
        Ok(end.map(|end| match end.outcome {
            Outcome::Measured(measurement) => of(&measurement, clients),
            Outcome::Void(void) => OneFewerOutcome::Failed {
                detail: void.to_string(),
            },
            Outcome::Skipped(detail) => OneFewerOutcome::Failed { detail },
        }))
    }
}

/// What came after a run was last given more blocks: figures of before are of another time.
fn since_extension(entries: &[Entry]) -> &[Entry] {
    let is_extension = |entry: &Entry| matches!(entry.event, Event::Extended { .. });
    let last = entries.iter().rposition(is_extension);
    &entries[last.unwrap_or(0)..]
}

fn of(measurement: &Measurement, (unit, left): (ClientUnit, u32)) -> OneFewerOutcome {
    let mut figures = measurement.figures.iter();
    match figures.find(|one| one.spec.role == Role::Primary) {
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
