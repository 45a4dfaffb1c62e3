//! An injected slowdown of known size: takes a share of every CPU while the load runs.
//!
//! It validates that a set-up detects a difference of that size. The CPU hog is a real-time thread on each CPU that
//! is busy for its share of each period. It has no effect where the CPUs are not the limit.
//!
//! The default period is long compared to a context switch (a few microseconds, twice a period), and short compared to
//! a trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::cpus;

/// Default time from one busy stretch to the next.
pub const PERIOD: Duration = Duration::from_millis(20);

/// Busy threads, which end when it is dropped.
#[derive(Debug)]
pub struct CpuHog {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl CpuHog {
    /// Begins to use `share` of each CPU that this process may use. Needs the right to real-time scheduling.
    pub fn begin(share: f64, period: Duration) -> Result<Self> {
        assert!((0.0..1.0).contains(&share), "plan is validated: a share");
        let mut hog = Self {
            ends: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        for cpu in cpus::numbers()? {
            let (ends, (ready, is_ready)) = (Arc::clone(&hog.ends), std::sync::mpsc::channel());
            let builder = thread::Builder::new().name("slowdown".into());
            let thread = builder.spawn(move || {
                let prepared = prepare(cpu);
                let goes_on = prepared.is_ok();
                if ready.send(prepared).is_ok() && goes_on {
                    stay_busy(share, period, &ends);
                }
            });
            hog.threads
                .push(thread.context("create a thread of the CPU hog")?);
            let prepared = is_ready.recv().context("a thread of the CPU hog ended")?;
            prepared.with_context(|| format!("inject a slowdown on CPU {cpu}"))?;
        }
        Ok(hog)
    }
}

impl Drop for CpuHog {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a busy loop does not panic");
        }
    }
}

/// Binds the thread to its CPU, with priority over all ordinary threads.
fn prepare(cpu: u32) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu as usize);
    sched_setaffinity(None, &only).context("bind a thread to a CPU")?;
    run_in_real_time().context("schedule a thread in real time")
}

#[expect(unsafe_code, reason = "rustix has no sched_setscheduler")]
fn run_in_real_time() -> std::io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the calling thread's own policy is set from a structure that outlives the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Is busy for `share` of each period. Periods count from the first, so the thread catches up after a late one.
fn stay_busy(share: f64, period: Duration, ends: &AtomicBool) {
    let mut next = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        next += period;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let since = Instant::now();
        while since.elapsed() < period.mul_f64(share) {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};

    #[test]
    fn the_share_that_is_asked_for_is_taken() {
        let share = 0.2;
        let Ok(hog) = CpuHog::begin(share, PERIOD) else {
            base::skip::skip("no right to real-time scheduling");
            return;
        };
        let used = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap();
        let (before, since) = (used(), Instant::now());
        let cpus = hog.threads.len() as f64;
        let taken = || {
            let cpu = used().saturating_sub(before);
            cpu.as_secs_f64() / since.elapsed().as_secs_f64() / cpus
        };
        // The threads catch up, so a busy host reaches the share too. No upper bound, because other tests of this
        // process use CPU time as well.
        thread::sleep(Duration::from_millis(500));
        while taken() <= 0.9 * share {
            assert!(since.elapsed() < Duration::from_secs(60), "{}", taken());
            thread::sleep(Duration::from_millis(20));
        }
        drop(hog);
    }
}
