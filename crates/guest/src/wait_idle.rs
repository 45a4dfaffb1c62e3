//! Waits until the system is idle before it is loaded.
//!
//! A kernel continues with deferred set-up, self-tests and caches after its first process has started, a newer
//! kernel longer. Without this wait, 7.2 served 1,100 pages in its first second under load and 2,500 in its third, so
//! it seemed a fifth slower than 6.1, which it is not.

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::cpus::Cpus;
use crate::proc;

/// How long the system must be idle. `/proc/stat` counts hundredths, so a second resolves one percent.
const IDLE_FOR: Duration = Duration::from_secs(1);

/// Share of CPU time that may be busy while it counts as idle.
const BUSY_LIMIT: f64 = 0.03;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdleWait {
    /// Time waited.
    pub waited: Duration,
    /// Share of CPU time that was busy in the last second.
    pub busy: f64,
}

impl IdleWait {
    /// Whether the system was idle in the end.
    pub fn is_idle(&self) -> bool {
        self.busy <= BUSY_LIMIT
    }
}

impl fmt::Display for IdleWait {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_idle() { "quiet" } else { "not quiet" };
        let (seconds, busy) = (self.waited.as_secs(), self.busy * 100.0);
        write!(out, "{end} after {seconds} s ({busy:.0} % busy)")
    }
}

/// Waits for a second in which these CPUs are idle, at most about `limit`: a live host may have other work that never
/// ends.
pub fn wait_idle(cpus: &Cpus, limit: Duration, stop: &AtomicBool) -> Result<IdleWait> {
    let begin = Instant::now();
    loop {
        let (before, idle_before) = (Instant::now(), idle_seconds(cpus)?);
        thread::sleep(IDLE_FOR);
        let idle = idle_seconds(cpus)? - idle_before;
        let busy = busy_share(idle, before.elapsed(), cpus.count);
        let waited = IdleWait {
            waited: begin.elapsed(),
            busy,
        };
        if waited.is_idle() || waited.waited > limit || stop.load(Ordering::Relaxed) {
            return Ok(waited);
        }
    }
}

fn busy_share(idle_s: f64, elapsed: Duration, cpus: u32) -> f64 {
    // Idle time is counted in hundredths, so it may exceed the elapsed time.
    (1.0 - idle_s / (elapsed.as_secs_f64() * f64::from(cpus))).max(0.0)
}

/// Idle seconds since boot, summed over the CPUs.
fn idle_seconds(cpus: &Cpus) -> Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
    let idle = proc::stat(&text, &cpus.bound).idle;
    Ok(idle as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_of_all_cpus_is_shared_out() {
        let second = Duration::from_secs(1);
        assert!((busy_share(1.5, second, 2) - 0.25).abs() < 1e-12);
        assert!(busy_share(1.01, second, 1).abs() < 1e-12);
    }

    #[test]
    fn a_wait_shows_how_it_ended() {
        let quiet = IdleWait {
            waited: Duration::from_secs(3),
            busy: 0.01,
        };
        assert_eq!(quiet.to_string(), "quiet after 3 s (1 % busy)");
        let loud = IdleWait {
            waited: Duration::from_secs(60),
            busy: 0.5,
        };
        assert_eq!(loud.to_string(), "not quiet after 60 s (50 % busy)");
    }
}
