//! The number of trials that run at a time.
//!
//! Counted instructions do not depend on how busy the host is. Wall-clock time does, so there trials run one at a time.

use anyhow::{Result, bail};
use base::input::units::show_bytes;
use machine::guest::Machine;
use machine::host;
use plan::Plan;

/// Memory that QEMU takes beyond the guest's: for itself, and for the code that it translates.
const OVERHEAD_BYTES: u64 = 512 << 20;

/// The number of trials to run at a time on a prepared machine.
pub(super) fn for_machine(jobs: Option<u16>, plan: &Plan, machine: &dyn Machine) -> Result<usize> {
    for_plan(jobs, plan, machine.ns_per_instruction().is_some())
}

/// The number of trials that a run of this plan would run at a time, for forecasts. `counted` is whether instructions
/// would be counted.
pub(in crate::commands) fn for_plan(
    jobs: Option<u16>,
    plan: &Plan,
    counted: bool,
) -> Result<usize> {
    let cpus = host::cpus()?.len();
    let memory = Memory {
        available_bytes: host::available_bytes(),
        guest_bytes: plan.machine.memory_bytes + OVERHEAD_BYTES,
    };
    choose(jobs.map(usize::from), counted, cpus, memory)
}

#[derive(Debug, Clone, Copy)]
struct Memory {
    available_bytes: u64,
    /// Memory that one guest takes.
    guest_bytes: u64,
}

fn choose(jobs: Option<usize>, counted: bool, cpus: usize, memory: Memory) -> Result<usize> {
    let fit = (memory.available_bytes / memory.guest_bytes) as usize;
    match (jobs, counted) {
        (None | Some(1), false) => Ok(1),
        (Some(jobs), false) => bail!(
            "trials at a time by the wall clock: --jobs {jobs} (they would disturb each other: leave --jobs out, or write \
             clock = \"instructions\" in [machine])"
        ),
        (None, true) => Ok(cpus.min(fit).max(1)),
        (Some(jobs), true) if jobs > fit.max(1) => bail!(
            "more trials at a time than memory holds: --jobs {jobs}, {} for each, {} available (at the most --jobs {})",
            show_bytes(memory.guest_bytes),
            show_bytes(memory.available_bytes),
            fit.max(1)
        ),
        (Some(jobs), true) => Ok(jobs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(jobs: Option<usize>, counted: bool, available_gib: u64, want: Result<usize, &str>) {
        let memory = Memory {
            available_bytes: available_gib << 30,
            guest_bytes: 2 << 30,
        };
        let got = choose(jobs, counted, 4, memory).map_err(|why| why.to_string());
        match (got, want) {
            (Ok(jobs), Ok(want)) => assert_eq!(jobs, want),
            (Err(why), Err(want)) => assert!(why.contains(want), "{why}"),
            (got, want) => panic!("{got:?} is not {want:?}"),
        }
    }

    #[test]
    fn counted_trials_run_on_every_cpu_that_memory_allows() {
        check(None, true, 64, Ok(4));
        check(None, true, 5, Ok(2));
        check(None, true, 1, Ok(1));
        check(Some(8), true, 64, Ok(8));
        check(Some(3), true, 5, Err("at the most --jobs 2"));
    }

    #[test]
    fn trials_by_the_wall_clock_run_alone() {
        check(None, false, 64, Ok(1));
        check(Some(1), false, 64, Ok(1));
        check(Some(2), false, 64, Err("--jobs 2 (they would disturb"));
    }
}
