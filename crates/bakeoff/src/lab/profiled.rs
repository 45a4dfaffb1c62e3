//! Trials that run only for their profile, after the last judged block, if time is wall-clock time.
//!
//! Sampling costs time, so a sampled trial must not be judged. These trials have separate events in the journal and separate
//! records in `profiled/`, and no judgement reads either. Each judged block of a workload is profiled once, in the block's
//! order, and there are at least as many profiled blocks as an explanation needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use plan::WorkloadPlan;
use record::journal::Event;
use record::rundir::{ProfileNote, Series};
use record::trial::Trial;

use super::attempt;
use super::{JournalState, Lab, LabEvent, MAX_ATTEMPTS, MAX_CONSECUTIVE_FAILURES};

/// How a trial ended, as far as the next trials depend on it.
enum End {
    Profiled,
    /// The arm's system cannot sample.
    Unprofiled,
    Interrupted,
}

impl Lab<'_> {
    /// Runs the trials that are still missing. Returns whether all of them have ended.
    pub(super) fn run_profiled(&self, state: &mut JournalState) -> Result<bool> {
        if !self.plan.why || self.machine.is_profiled() {
            return Ok(true);
        }
        let mut unprofiled = self.unprofiled()?;
        let min_blocks = judge::topics::why::find::least_blocks(&self.plan.design);
        let workloads = self.plan.workloads.iter().map(|workload| {
            let judged = state.run_state.last_block(&workload.id);
            (workload, judged.max(min_blocks))
        });
        let workloads: Vec<(&WorkloadPlan, u32)> = workloads.collect();
        let max_blocks = workloads.iter().map(|(_, blocks)| *blocks).max();
        for block in 1..=max_blocks.unwrap_or(0) {
            for (workload, _) in workloads.iter().filter(|(_, blocks)| block <= *blocks) {
                if !self.run_profiled_block(state, workload, block, &mut unprofiled)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Arms whose systems are known to be unable to sample.
    fn unprofiled(&self) -> Result<BTreeSet<String>> {
        let records = self.load()?.profiled;
        let lacking = records
            .into_iter()
            .filter(|record| matches!(record.profile, Some(ProfileNote::Missing(_))));
        Ok(lacking.map(|record| record.trial.arm).collect())
    }

    /// Whether further profiles can explain anything: the baseline and another arm must have profiles.
    fn can_explain(&self, state: &JournalState, unprofiled: &BTreeSet<String>) -> bool {
        let has_profiles = |arm: &String| {
            !unprofiled.contains(arm)
                && state.profiled.consecutive_failures(arm) < MAX_CONSECUTIVE_FAILURES
        };
        let mut others = self.plan.arms.iter().map(|arm| &arm.name);
        let baseline = &self.plan.baseline;
        has_profiles(baseline) && others.any(|arm| arm != baseline && has_profiles(arm))
    }

    fn run_profiled_block(
        &self,
        state: &mut JournalState,
        workload: &WorkloadPlan,
        block: u32,
        unprofiled: &mut BTreeSet<String>,
    ) -> Result<bool> {
        let order = judge::order(self.plan, &workload.id, block);
        for (arm, slot) in order.into_iter().zip(1..) {
            if unprofiled.contains(&arm) || !self.can_explain(state, unprofiled) {
                continue;
            }
            let trial = state.profiled.trial(&workload.id, block, slot, &arm);
            while let Some(attempt) = state.profiled.next_attempt(&trial, MAX_ATTEMPTS) {
                match self.run_profiled_trial(state, workload, &trial, attempt)? {
                    End::Profiled => {}
                    End::Unprofiled => drop(unprofiled.insert(arm.clone())),
                    End::Interrupted => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    fn run_profiled_trial(
        &self,
        state: &mut JournalState,
        workload: &WorkloadPlan,
        trial: &Trial,
        attempt: u32,
    ) -> Result<End> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(End::Interrupted);
        }
        let event = Event::Profiling {
            trial: trial.clone(),
            attempt,
        };
        self.append_event(state, event)?;
        let cancelled = Arc::new(AtomicBool::new(false));
        let context = self.attempt_context(Series::Profiled, cancelled);
        let dir = self.dir.trial_dir(Series::Profiled, trial, attempt)?;
        let on_activity = |activity| (self.show)(LabEvent::Activity(trial, &activity));
        let Some(end) = attempt::run(&context, workload, trial, &dir, &on_activity)? else {
            return Ok(End::Interrupted);
        };
        let record = self.record_attempt(state, Series::Profiled, trial, attempt, end)?;
        Ok(match record.profile {
            Some(ProfileNote::Missing(_)) => End::Unprofiled,
            Some(ProfileNote::Kept { .. } | ProfileNote::Sampled { .. }) | None => End::Profiled,
        })
    }
}
