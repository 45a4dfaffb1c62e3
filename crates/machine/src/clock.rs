//! The host's time as a parameter, so that a simulated lab needs none.

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use sha2::{Digest as _, Sha256};

/// A source of time, for all threads.
pub trait Clock: Sync {
    /// Time since some fixed instant; never goes back.
    fn now(&self) -> Duration;

    /// The time of day in RFC 3339, UTC.
    fn stamp(&self) -> String;

    /// How long a fixed piece of work takes on a CPU of the host now: longer where its clock was lowered, or where
    /// somebody else works on the same core.
    fn spin(&self) -> Duration;
}

/// The fixed piece of work: SHA-256 of so many bytes, 5 ms on a CPU that has instructions for it and 20 on others. The crate for it is
/// optimised in a development build too.
const BLOCK: usize = 4096;
const BLOCKS: u32 = 2048;

/// The least of so many counts, because a timer or another program in between is not the CPU's doing.
const SPINS: u32 = 7;

/// The clock of the host.
#[derive(Debug, Clone, Copy)]
pub struct HostClock {
    start: Instant,
}

impl HostClock {
    /// A clock that begins at zero now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Clock for HostClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn stamp(&self) -> String {
        humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
    }

    fn spin(&self) -> Duration {
        let once = |_| {
            let begun = Instant::now();
            // Each block needs the sum of the one before it, so that no compiler shortens them and no CPU does two at once.
            let mut hash = Sha256::new();
            for _ in 0..BLOCKS {
                hash.update(black_box([0; BLOCK]));
            }
            black_box(hash.finalize());
            begun.elapsed()
        };
        (0..SPINS).map(once).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_work_takes_about_the_same_time() {
        let clock = HostClock::start();
        let (first, second) = (clock.spin().as_secs_f64(), clock.spin().as_secs_f64());
        assert!(
            0.001 < first && first / second < 5.0 && second / first < 5.0,
            "{first} {second}"
        );
    }
}
