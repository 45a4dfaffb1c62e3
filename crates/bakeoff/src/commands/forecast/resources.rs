//! Time and disk space of a whole run, boots included, estimated from the newest similar run on this host.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base::input::tree::Tree;
use machine::cache::size_of;
use plan::{Plan, WorkloadPlan};
use record::journal::JOURNAL;
use record::rundir;
use record::rundir::Run;
use serde::Serialize;

use super::{Length, mean_trial, run_clock};

/// Newest runs that are read for a similar one.
const READ: usize = 8;

/// An estimate for a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::commands) struct Resources {
    /// The run whose trials were timed.
    pub(in crate::commands) from: PathBuf,
    /// Host time of a trial of each workload, boot included, in seconds.
    pub(in crate::commands) trial_s: Vec<f64>,
    /// Host time of the fewest and the most blocks, in seconds.
    pub(in crate::commands) run_s: [f64; 2],
    /// Size of the run directory after the fewest and the most blocks.
    pub(in crate::commands) disk_bytes: [u64; 2],
    /// Trials at a time.
    pub(in crate::commands) jobs: usize,
}

/// Estimates the resources of a plan from runs below `runs`; `None` if none had the same kind of machine and clock.
pub(in crate::commands) fn resources(
    runs: &Path,
    plan: &Plan,
    lengths: &[Length],
    jobs: usize,
) -> Option<Resources> {
    let mut dirs: Vec<(SystemTime, Tree)> = record::live::directories(runs)
        .ok()?
        .into_values()
        .filter_map(|dir| {
            let journal = dir.metadata(JOURNAL).ok()?;
            Some((journal.modified().ok()?, dir))
        })
        .collect();
    dirs.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    dirs.iter()
        .take(READ)
        .find_map(|(_, dir)| estimate(dir, plan, lengths, jobs))
}

fn estimate(dir: &Tree, plan: &Plan, lengths: &[Length], jobs: usize) -> Option<Resources> {
    let run = rundir::load(dir, &workload::check).ok()?;
    let clock = run_clock(&run);
    let is_similar = run.plan.machine.kind == plan.machine.kind
        && (plan.machine.clock == clock || plan.machine.clock == run.plan.machine.clock);
    if !is_similar {
        return None;
    }
    let overhead_s = overhead_s(&run)?;
    let bytes_per_trial = size_of(&dir.path()) / run.attempts.len().max(1) as u64;
    let trial_s = plan
        .workloads
        .iter()
        .zip(lengths)
        .map(|(workload, length)| {
            let is_same = |other: &&WorkloadPlan| {
                (&other.kind, &other.options) == (&workload.kind, &workload.options)
            };
            let same = run.plan.workloads.iter().find(is_same);
            let known = same.and_then(|same| mean_trial(&run.entries, &same.id));
            known.map_or_else(
                || overhead_s + length.time().as_secs_f64(),
                |known| known.as_secs_f64(),
            )
        });
    let trial_s: Vec<f64> = trial_s.collect();
    let seconds_of_block = plan.arms.len() as f64 * trial_s.iter().sum::<f64>() / jobs as f64;
    let per_block = (plan.arms.len() * lengths.len()) as u64 * bytes_per_trial;
    let blocks = [plan.design.min_blocks, plan.design.max_blocks];
    Some(Resources {
        from: dir.path(),
        trial_s,
        run_s: blocks.map(|blocks| f64::from(blocks) * seconds_of_block),
        disk_bytes: blocks.map(|blocks| u64::from(blocks) * per_block),
        jobs,
    })
}

/// Mean host time of a trial beyond its load, in seconds.
fn overhead_s(run: &Run) -> Option<f64> {
    let known = run.plan.workloads.iter().filter_map(|workload| {
        let load = workload.expected.unwrap_or(workload.length);
        let trial = mean_trial(&run.entries, &workload.id)?;
        Some(trial.saturating_sub(load))
    });
    let known: Vec<Duration> = known.collect();
    let sum: Duration = known.iter().sum();
    (!known.is_empty()).then(|| sum.as_secs_f64() / known.len() as f64)
}
