//! The engine's clock, in nanoseconds. Adjustments of the system clock do not affect it.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`.
pub fn now_ns() -> u64 {
    read_ns(ClockId::MonotonicRaw)
}

/// CPU time that the calling thread has used, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    read_ns(ClockId::ThreadCPUTime)
}

/// Time that the calling thread has waited on a run queue, in nanoseconds; 0 if the kernel does not
/// record it.
pub(crate) fn thread_wait_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let wait = text.split_ascii_whitespace().nth(1);
    wait.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A duration in nanoseconds, saturating at 584 years.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
