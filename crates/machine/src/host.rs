//! The CPUs of this host: which of them bakeoff may use, and how a process is kept to some of them.

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
