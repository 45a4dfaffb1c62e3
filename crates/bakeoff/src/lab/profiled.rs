//! Trials that are run for their profile alone, after the verdict's last block, where time is the wall clock's.
//!
//! Samples cost time, so a trial that is sampled must not be judged: these have events of their own in the journal, records of
//! their own in `profiled/`, and nothing that judges reads either. Each judged block of a workload has one, in an order of
//! its own, and there are at least as many as anything can be named of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use plan::WorkloadPlan;
use record::journal::Event;
use record::rundir::{ProfileNote, Series};
use record::trial::Trial;

use super::attempt;
use super::{ATTEMPTS, Book, Lab, LabEvent, PATIENCE};

/// How a trial ended, as far as the next ones hang on it.
enum End {
    Profiled,
    /// The system of the arm has nothing to sample with.
    Unprofiled,
    Interrupted,
}

impl Lab<'_> {
    /// Runs what is still owed of these trials; whether all of them have ended.
    pub(super) fn run_profiled(&self, book: &mut Book) -> Result<bool> {
        if !self.plan.why || self.machine.is_profiled() {
            return Ok(true);
        }
        let mut unprofiled = self.unprofiled()?;
        let blocks = |one: &WorkloadPlan| {
            let judged = book.run_state.last_block(&one.id);
            judge::topics::why::find::least_blocks(&self.plan.design).max(judged)
        };
        let owed = self.plan.workloads.iter().map(|one| (one, blocks(one)));
        let owed: Vec<(&WorkloadPlan, u32)> = owed.collect();
        for block in 1..=owed.iter().map(|(_, blocks)| *blocks).max().unwrap_or(0) {
            for (workload, _) in owed.iter().filter(|(_, blocks)| block <= *blocks) {
                if !self.run_profiled_block(book, workload, block, &mut unprofiled)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Arms whose systems are known to have nothing to sample with.
    fn unprofiled(&self) -> Result<BTreeSet<String>> {
        let records = self.load()?.profiled;
        let lacking = records
            .into_iter()
            .filter(|record| matches!(record.profile, Some(ProfileNote::Missing(_))));
        Ok(lacking.map(|record| record.trial.arm).collect())
    }

    /// Whether profiles of these blocks can explain anything still: the baseline has some, and an arm.
    fn is_of_use(&self, book: &Book, unprofiled: &BTreeSet<String>) -> bool {
        let has_profiles = |arm: &String| {
            !unprofiled.contains(arm) && book.profiled.misses_in_a_row(arm) < PATIENCE
        };
        let mut others = self.plan.arms.iter().map(|arm| &arm.name);
        let baseline = &self.plan.baseline;
        has_profiles(baseline) && others.any(|arm| arm != baseline && has_profiles(arm))
    }

    fn run_profiled_block(
        &self,
        book: &mut Book,
        workload: &WorkloadPlan,
        block: u32,
        unprofiled: &mut BTreeSet<String>,
    ) -> Result<bool> {
        let order = judge::order(self.plan, &workload.id, block);
        for (arm, slot) in order.into_iter().zip(1..) {
            if unprofiled.contains(&arm) || !self.is_of_use(book, unprofiled) {
                continue;
            }
            let trial = book.profiled.trial(&workload.id, block, slot, &arm);
            while let Some(attempt) = book.profiled.next_attempt(&trial, ATTEMPTS) {
                match self.run_profiled_trial(book, workload, &trial, attempt)? {
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
        book: &mut Book,
        workload: &WorkloadPlan,
        trial: &Trial,
        attempt: u32,
    ) -> Result<End> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(End::Interrupted);
        }
        let begun = Event::Profiling {
            trial: trial.clone(),
            attempt,
        };
        self.note(book, begun)?;
        let cancelled = Arc::new(AtomicBool::new(false));
        let bench = self.bench(Series::Profiled, cancelled);
        let dir = self.dir.trial_dir(Series::Profiled, trial, attempt)?;
        let tell = |activity| (self.show)(LabEvent::Activity(trial, &activity));
        let Some(end) = attempt::run(&bench, (workload, trial), &dir, &tell)? else {
            return Ok(End::Interrupted);
        };
        let record = self.record(book, Series::Profiled, (trial, attempt), end)?;
        Ok(match record.profile {
            Some(ProfileNote::Missing(_)) => End::Unprofiled,
            Some(ProfileNote::Kept { .. } | ProfileNote::Sampled { .. }) | None => End::Profiled,
        })
    }
}
