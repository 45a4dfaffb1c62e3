//! Ceilings: what the clients of a workload get from a null server, before the first trial.
//!
//! One for each set-up of clients and network, so for each number of CPUs that arms have here, and not for each arm: its
//! sysctls are those of the first arm with so many. What keeps one from being measured is recorded and told, and the trials
//! are run all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use plan::{Arm, MachineKind, WorkloadPlan};
use record::journal;
use record::journal::{Entry, Event, Opening};
use record::load_path::{Ceiling, CeilingOutcome};
use record::rundir::Series;
use record::trial::{Measurement, Outcome, Trial};

use super::attempt::{self, Attempted, Bench, Purpose};
use super::{Book, Finish, Lab, LabEvent, refuse_changes};

impl Lab<'_> {
    /// Measures the ceilings that `entries` do not have yet; whether all of them are there.
    pub(super) fn measure_ceilings(&self, book: &mut Book, entries: &[Entry]) -> Result<bool> {
        if !self.has_null_server() {
            return Ok(true);
        }
        let workloads = self.plan.workloads.iter();
        for workload in workloads.filter(|one| workload::has_ceiling(one)) {
            for (arm, cpus) in self.set_ups() {
                let is_known = journal::ceiling(entries, &workload.id, cpus).is_some();
                if is_known && !self.remeasures_ceilings {
                    continue;
                }
                if self.interrupted.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let Some(outcome) = self.measure_ceiling(workload, arm)? else {
                    return Ok(false);
                };
                let event = Event::Ceiling {
                    workload: workload.id.clone(),
                    cpus,
                    outcome,
                };
                self.note(book, event)?;
            }
        }
        Ok(true)
    }

    /// Measures the ceilings of a run that has ended once more, where that was asked for: its trials stay as they are.
    pub(super) fn measure_ceilings_again(
        &self,
        book: &mut Book,
        opening: &Opening,
        entries: &[Entry],
    ) -> Result<Finish> {
        if !self.remeasures_ceilings {
            return Ok(Finish::Complete);
        }
        if let Some(before) = book.run_state.opening() {
            refuse_changes(before, opening)?;
        }
        let is_complete = self.measure_ceilings(book, entries)?;
        Ok(if is_complete {
            Finish::Complete
        } else {
            Finish::Interrupted
        })
    }

    /// Whether there is one, or one can be started. In a guest the clients are the arm's own, and part of what is compared.
    fn has_null_server(&self) -> bool {
        match self.plan.machine.kind {
            MachineKind::Local => true,
            MachineKind::Url => self.plan.machine.ceiling.is_some(),
            MachineKind::Ssh => self.plan.machine.is_box_with_clients_apart(),
            MachineKind::Qemu => false,
        }
    }

    /// The first arm with each number of CPUs.
    fn set_ups(&self) -> Vec<(&Arm, Option<u32>)> {
        let mut set_ups: Vec<(&Arm, Option<u32>)> = Vec::new();
        for arm in &self.plan.arms {
            let cpus = self.plan.cpus(arm);
            if !set_ups.iter().any(|(_, known)| *known == cpus) {
                set_ups.push((arm, cpus));
            }
        }
        set_ups
    }

    /// Runs the workload's clients against a null server; `None` when the user stopped it.
    fn measure_ceiling(
        &self,
        workload: &WorkloadPlan,
        arm: &Arm,
    ) -> Result<Option<CeilingOutcome>> {
        let trial = Trial {
            number: 0,
            block: 0,
            slot: 1,
            arm: arm.name.clone(),
            workload: workload.id.clone(),
        };
        let end = self.run_apart(Purpose::Ceiling, (workload, &trial), "ceiling")?;
        let outcome = end.map(|end| match end.outcome {
            Outcome::Measured(measurement) => of(&measurement),
            Outcome::Void(void) => CeilingOutcome::Failed {
                detail: void.to_string(),
            },
            Outcome::Skipped(detail) => CeilingOutcome::Failed { detail },
        });
        Ok(outcome)
    }
}

impl Lab<'_> {
    /// Runs what is no trial and leaves nothing but what the journal says of it; `None` when the user stopped it.
    pub(super) fn run_apart(
        &self,
        purpose: Purpose,
        (workload, trial): (&WorkloadPlan, &Trial),
        name: &str,
    ) -> Result<Option<Attempted>> {
        let bench = Bench {
            purpose,
            ..self.bench(Series::Judged, Arc::new(AtomicBool::new(false)))
        };
        let tree = self.dir.tree();
        // What an interrupted one has left.
        tree.remove_all(name)?;
        let dir = tree.make_dir(name)?.path();
        let tell = |activity| (self.show)(LabEvent::Activity(trial, &activity));
        let end = attempt::run(&bench, (workload, trial), &dir, &tell);
        tree.remove_all(name)?;
        end
    }
}

/// What a measurement says of the clients and the network.
fn of(measurement: &Measurement) -> CeilingOutcome {
    let Measurement { load, path, .. } = measurement;
    let (Some(load), Some(path)) = (load, path) else {
        let detail = "the clients saw nothing".into();
        return CeilingOutcome::Failed { detail };
    };
    let seconds = load.window_ns as f64 / 1e9;
    let idle: f64 = path.cpus.iter().map(|cpu| cpu.idle).sum();
    CeilingOutcome::Measured(Ceiling {
        requests_per_s: load.ok_per_s(),
        body_bytes_per_s: load.body_bytes as f64 / seconds,
        window_ns: load.window_ns,
        client_busy: load.client_busy(),
        client_waited: load.client_waited(),
        cpu_idle: idle / path.cpus.len().max(1) as f64,
        is_shared: path.is_shared,
        cpu_ns_per_request: path
            .cpu_ns
            .map(|cpu_ns| cpu_ns as f64 / load.ok_in_window.max(1) as f64),
    })
}
