//! The part of a run that counts.

/// The half-open interval from `open_ns` to `close_ns`, in nanoseconds of the engine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) open_ns: u64,
    pub(crate) close_ns: u64,
}

impl Window {
    pub(crate) fn contains(self, at_ns: u64) -> bool {
        self.open_ns <= at_ns && at_ns < self.close_ns
    }

    /// Whether the window overlaps an interval.
    pub(crate) fn meets(self, from_ns: u64, to_ns: u64) -> bool {
        self.open_ns < to_ns && from_ns < self.close_ns
    }

    pub(crate) fn length_ns(self) -> u64 {
        self.close_ns.saturating_sub(self.open_ns)
    }
}
