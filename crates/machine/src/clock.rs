//! The host's time as a parameter, so that a simulated lab needs none.

use std::time::{Duration, Instant, SystemTime};

/// A source of time.
pub trait Clock {
    /// Time since some fixed instant; never goes back.
    fn now(&self) -> Duration;

    /// The time of day in RFC 3339, UTC.
    fn stamp(&self) -> String;
}

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
}
