//! The part of a run that counts.

/// The part of a run that counts, in nanoseconds of the engine's clock; `close_ns` is not part of
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) open_ns: u64,
    pub(crate) close_ns: u64,
}

impl Window {
    pub(crate) fn contains(self, at_ns: u64) -> bool {
        self.open_ns <= at_ns && at_ns < self.close_ns
    }

    /// Whether some of it lies between two instants.
    pub(crate) fn meets(self, from_ns: u64, to_ns: u64) -> bool {
        self.open_ns < to_ns && from_ns < self.close_ns
    }

    pub(crate) fn length_ns(self) -> u64 {
        self.close_ns.saturating_sub(self.open_ns)
    }
}
