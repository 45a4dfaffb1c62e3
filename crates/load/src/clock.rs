//! Time as the engine sees it: nanoseconds that no adjustment of the system's clock can bend.

use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`.
pub fn now_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC_RAW)
}

/// CPU time that the calling thread has used, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// A duration in nanoseconds; 584 years are the limit.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(
    unsafe_code,
    reason = "std offers neither the raw clock nor a thread's CPU time"
)]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the one structure that the call writes.
    let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(status, 0, "both clocks exist since Linux 2.6.28");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
