//! The CPUs and the memory of this host: what bakeoff may use, and how a process is kept to some of the CPUs.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Numbers of the CPUs that bakeoff itself may run on, lowest first.
pub fn cpus() -> Result<Vec<usize>> {
    let own = sched_getaffinity(None).context("read the CPUs of this process")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| own.is_set(*cpu))
        .collect())
}

/// Memory that programs could still get, in bytes; 0 where the kernel does not say.
pub fn available_bytes() -> u64 {
    available_in(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn available_in(meminfo: &str) -> u64 {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Keeps a command's process, and all that it starts, to these CPUs.
#[expect(
    unsafe_code,
    reason = "the closure makes one system call and allocates nothing"
)]
pub(crate) fn keep_to(command: &mut Command, cpus: &[usize]) {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    // SAFETY: between fork and exec only sched_setaffinity is called, on a set that the closure owns.
    unsafe {
        command.pre_exec(move || Ok(sched_setaffinity(None, &set)?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let meminfo = "MemTotal: 9 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available_in(meminfo), 2 << 20);
        assert_eq!(available_in(""), 0);
    }
}
