//! The CPUs that an arm may use: all of a guest's, or perhaps only some of a live host's. Only these are counted.

use std::fs;
use std::thread;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity};

/// CPUs that this process and its children may run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus {
    /// How many they are, or fewer under a quota of CPU time.
    pub count: u32,
    /// Their numbers if the system has more CPUs; empty if they are all of them.
    pub bound: Vec<u32>,
}

/// The CPUs that this process and its children may run on.
pub fn allowed() -> Result<Cpus> {
    from_stat(&fs::read_to_string("/proc/stat").context("read /proc/stat")?)
}

/// Numbers of the allowed CPUs, lowest first.
pub fn numbers() -> Result<Vec<u32>> {
    let allowed = sched_getaffinity(None).context("read the CPUs of this process")?;
    let allowed = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    Ok(allowed.map(|cpu| cpu as u32).collect())
}

fn from_stat(stat: &str) -> Result<Cpus> {
    let mut bound = numbers()?;
    let is_cpu = |line: &&str| number(line.split(' ').next().unwrap_or_default()).is_some();
    if bound.len() >= stat.lines().filter(is_cpu).count() {
        bound.clear();
    }
    // Servers size themselves by what a quota leaves.
    let count = thread::available_parallelism().context("count the CPUs")?;
    Ok(Cpus {
        count: u32::try_from(count.get())?,
        bound,
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
        let all = from_stat(&stat).unwrap();
        // The test itself may be bound to some CPUs.
        let more = from_stat(&format!("{stat}cpu900 1 2 3\ncpu901 1 2 3\n")).unwrap();
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
