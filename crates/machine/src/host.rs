//! The CPUs and the memory of this host that bakeoff may use; binds processes to CPUs.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};
use base::input::units::show_bytes;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Numbers of the CPUs that this process may run on, lowest first.
pub fn cpus() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("read the CPUs of this process")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect())
}

/// The release of the running kernel; empty if unknown.
pub fn release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}

/// Available memory in bytes; 0 if the kernel does not show it.
pub fn available_bytes() -> u64 {
    bytes_in(&meminfo(), "MemAvailable:")
}

/// Fails if a guest would have more memory than is available on this host.
///
/// # Errors
/// Names both.
pub fn check_memory(guest_bytes: u64) -> Result<(), String> {
    check_memory_of(bytes_in(&meminfo(), "MemTotal:"), guest_bytes)
}

fn check_memory_of(host_bytes: u64, guest_bytes: u64) -> Result<(), String> {
    // Unknown: do not refuse anything.
    if host_bytes == 0 || guest_bytes <= host_bytes {
        return Ok(());
    }
    Err(format!(
        "memory beyond what this host has: {} of {} (lower it, or run on a larger host)",
        show_bytes(guest_bytes),
        show_bytes(host_bytes)
    ))
}

fn meminfo() -> String {
    fs::read_to_string("/proc/meminfo").unwrap_or_default()
}

fn bytes_in(meminfo: &str, name: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// Binds the calling thread, and all that it starts, to these CPUs.
pub(crate) fn keep_thread_to(cpus: &[usize]) -> Result<()> {
    sched_setaffinity(None, &set_of(cpus)).context("keep a thread to some of the CPUs")
}

/// A set of CPUs for the kernel.
pub(crate) fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu);
    }
    set
}

/// Binds a command's process, and all that it starts, to these CPUs.
#[expect(
    unsafe_code,
    reason = "the closure makes one system call and allocates nothing"
)]
pub(crate) fn keep_to(command: &mut Command, cpus: &[usize]) {
    let set = set_of(cpus);
    // SAFETY: between fork and exec only sched_setaffinity is called, on a set that the closure owns.
    unsafe {
        command.pre_exec(move || Ok(sched_setaffinity(None, &set)?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let meminfo = "MemTotal: 9 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(bytes_in(meminfo, "MemAvailable:"), 2 << 20);
        assert_eq!(bytes_in(meminfo, "MemTotal:"), 9 << 10);
        assert_eq!(bytes_in("", "MemTotal:"), 0);
    }

    #[test]
    fn a_guest_has_no_more_memory_than_its_host() {
        assert_eq!(check_memory_of(8 << 30, 8 << 30), Ok(()));
        assert_eq!(check_memory_of(0, 8 << 30), Ok(()), "nothing is known");
        assert_eq!(
            check_memory_of(8 << 30, 64 << 30).unwrap_err(),
            "memory beyond what this host has: 64.0 GiB of 8.00 GiB (lower it, or run on a larger host)"
        );
    }
}
