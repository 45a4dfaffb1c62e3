//! Time as the engine sees it: nanoseconds that no adjustment of the system's clock can bend.

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

/// Time that the calling thread has been ready to run and had no CPU; 0 where the kernel keeps no account of it.
pub(crate) fn thread_wait_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let wait = text.split_ascii_whitespace().nth(1);
    wait.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A duration in nanoseconds; 584 years are the limit.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
