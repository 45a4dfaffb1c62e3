//! Which CPUs are the arm's: all of a guest's; on a live host perhaps some of the host's, and nothing but those is
//! to be counted.

use std::fs;
use std::thread;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity};

/// The CPUs of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus {
    /// How many there are.
    pub count: u32,
    /// Their numbers where the system has others too; empty where they are all that it has.
    pub bound: Vec<u32>,
}

/// The CPUs that this process and its children may run on.
pub fn own() -> Result<Cpus> {
    of(&fs::read_to_string("/proc/stat").context("read /proc/stat")?)
}

/// Their numbers, lowest first.
pub fn numbers() -> Result<Vec<u32>> {
    let own = sched_getaffinity(None).context("read the CPUs of this process")?;
    let own = (0..CpuSet::MAX_CPU).filter(|cpu| own.is_set(*cpu));
    Ok(own.map(|cpu| cpu as u32).collect())
}

fn of(stat: &str) -> Result<Cpus> {
    let own = numbers()?;
    let is_cpu = |line: &&str| number(line.split(' ').next().unwrap_or_default()).is_some();
    let online = stat.lines().filter(is_cpu).count();
    // A quota of CPU time may leave less than the CPUs that may be used; servers go by what is left.
    let count = thread::available_parallelism().context("count the CPUs")?;
    Ok(Cpus {
        count: u32::try_from(count.get())?,
        bound: if own.len() < online { own } else { Vec::new() },
    })
}

/// The number in a key of `/proc/stat` or `/proc/schedstat`: 12 in `cpu12`.
pub fn number(key: &str) -> Option<u32> {
    key.strip_prefix("cpu")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_may_use_all_cpus_is_not_bound() {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let all = of(&stat).unwrap();
        // The test itself may be bound; that shows when there is one CPU more.
        let more = of(&format!("{stat}cpu900 1 2 3\ncpu901 1 2 3\n")).unwrap();
        assert!(!more.bound.is_empty());
        assert!(all.bound.is_empty() || all.bound == more.bound);
    }

    #[test]
    fn the_sum_of_all_cpus_is_no_cpu() {
        assert_eq!(
            ["cpu", "cpu0", "cpu12", "ctxt"].map(number),
            [None, Some(0), Some(12), None]
        );
    }
}
