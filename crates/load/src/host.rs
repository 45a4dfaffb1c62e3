//! The client's host: which CPUs clients may use, and how much CPU time the hypervisor took.

use std::fs;

use record::load::LoadResult;

use crate::clock::now_ns;

/// A tick of `/proc/stat`: `USER_HZ` is 100 on all supported architectures.
const TICK_NS: u64 = 10_000_000;

/// Index of `steal` on the first line of `/proc/stat`, counting the line's name (proc(5)).
const STEAL: usize = 8;

/// The host's stolen time at an instant.
pub(crate) struct HostUsage {
    at_ns: u64,
    stolen_ns: u64,
}

impl HostUsage {
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self {
            at_ns: now_ns(),
            stolen_ns: stolen_ns(&stat),
        }
    }

    /// Records the host's CPU time since `now` was called. Values that `/proc` lacks stay zero or
    /// empty.
    pub(crate) fn record_since(&self, result: &mut LoadResult) {
        let Self { at_ns, stolen_ns } = Self::now();
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let online = count(online.trim());
        result.host_cpu_ns = (at_ns - self.at_ns) * online;
        result.stolen_ns = stolen_ns.saturating_sub(self.stolen_ns);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(allowed) = allowed(&status) {
            result.client_cpus = format!("{allowed} of {online}");
        }
    }
}

/// CPU time that the hypervisor has taken since boot.
fn stolen_ns(stat: &str) -> u64 {
    let steal = stat
        .split_ascii_whitespace()
        .nth(STEAL)
        .and_then(|word| word.parse::<u64>().ok());
    steal.unwrap_or(0) * TICK_NS
}

/// CPUs that this process may run on, as a kernel CPU list.
fn allowed(status: &str) -> Option<&str> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(str::trim)
}

/// Number of CPUs in a list such as `0-2,5`.
fn count(list: &str) -> u64 {
    let numbers = list.split(',').filter_map(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        Some(to.saturating_sub(from) + 1)
    });
    numbers.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_shows_is_read() {
        let stat = "cpu  10 0 5 300 7 0 2 12 0 0\ncpu0 5 0 2 150 3 0 1 6 0 0\n";
        assert_eq!(stolen_ns(stat), 120_000_000);
        assert_eq!(stolen_ns(""), 0);
        let status = "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1,4\n";
        assert_eq!(allowed(status), Some("0-1,4"));
        assert_eq!(["0-1,4", "0", "0-7", ""].map(count), [3, 1, 8, 0]);
    }
}
