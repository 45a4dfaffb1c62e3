//! Ceilings: the load that a workload's clients reach against a null server, measured before the first trial.
//!
//! There is one ceiling for each setup of clients and network, that is for each number of CPUs that arms have here. It uses
//! the sysctls of the first arm with that number. If a ceiling cannot be measured, the reason is recorded and shown, and the
//! trials run nevertheless.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use plan::{Arm, MachineKind, WorkloadPlan};
use record::journal;
use record::journal::{Entry, Event, Opening};
use record::load_path::{Ceiling, CeilingOutcome};
use record::rundir::Series;
use record::trial::{Measurement, Outcome, Trial};

use super::attempt::{self, AttemptContext, EndedAttempt, Purpose};
use super::{Finish, JournalState, Lab, LabEvent, refuse_changes};

impl Lab<'_> {
    /// Measures the ceilings that `entries` lack. Returns false if the user stopped it.
    pub(super) fn measure_ceilings(
        &self,
        state: &mut JournalState,
        entries: &[Entry],
    ) -> Result<bool> {
        if !self.has_null_server() {
            return Ok(true);
        }
        for workload in &self.plan.workloads {
            if !workload::has_ceiling(workload) {
                continue;
            }
            for (arm, cpus) in self.setups() {
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
                self.append_event(state, event)?;
            }
        }
        Ok(true)
    }

    /// Measures the ceilings of an ended run again, if the user asked for it. The run's trials stay as they are.
    pub(super) fn measure_ceilings_again(
        &self,
        state: &mut JournalState,
        opening: &Opening,
        entries: &[Entry],
    ) -> Result<Finish> {
        if !self.remeasures_ceilings {
            return Ok(Finish::Complete);
        }
        if let Some(before) = state.run_state.opening() {
            refuse_changes(before, opening)?;
        }
        if self.measure_ceilings(state, entries)? {
            Ok(Finish::Complete)
        } else {
            Ok(Finish::Interrupted)
        }
    }

    /// Whether there is a null server, or one can be started. Clients in a guest are part of what is compared, so they have none.
    fn has_null_server(&self) -> bool {
        match self.plan.machine.kind {
            MachineKind::Local => true,
            MachineKind::Url => self.plan.machine.ceiling.is_some(),
            MachineKind::Ssh => self.plan.machine.is_box_with_clients_apart(),
            MachineKind::Qemu => false,
        }
    }

    /// The first arm with each number of CPUs.
    fn setups(&self) -> Vec<(&Arm, Option<u32>)> {
        let mut setups: Vec<(&Arm, Option<u32>)> = Vec::new();
        for arm in &self.plan.arms {
            let cpus = self.plan.cpus(arm);
            if !setups.iter().any(|(_, known)| *known == cpus) {
                setups.push((arm, cpus));
            }
        }
        setups
    }

    /// Runs the workload's clients against a null server; `None` if the user stopped it.
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
        let end = self.run_unrecorded(Purpose::Ceiling, workload, &trial, "ceiling")?;
        let outcome = end.map(|end| match end.outcome {
            Outcome::Measured(measurement) => ceiling_outcome(&measurement),
            Outcome::Void(void) => CeilingOutcome::Failed {
                detail: void.to_string(),
            },
            Outcome::Skipped(detail) => CeilingOutcome::Failed { detail },
        });
        Ok(outcome)
    }

    /// Runs a measurement that has no trial record, in the temporary directory `name`; `None` if the user stopped it.
    pub(super) fn run_unrecorded(
        &self,
        purpose: Purpose,
        workload: &WorkloadPlan,
        trial: &Trial,
        name: &str,
    ) -> Result<Option<EndedAttempt>> {
        let context = AttemptContext {
            purpose,
            ..self.attempt_context(Series::Judged, Arc::new(AtomicBool::new(false)))
        };
        let tree = self.dir.tree();
        // An interrupted measurement may have left files.
        tree.remove_all(name)?;
        let dir = tree.make_dir(name)?.path();
        let on_activity = |activity| (self.show)(LabEvent::Activity(trial, &activity));
        let end = attempt::run(&context, workload, trial, &dir, &on_activity);
        tree.remove_all(name)?;
        end
    }
}

/// The ceiling that a measurement shows.
fn ceiling_outcome(measurement: &Measurement) -> CeilingOutcome {
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
