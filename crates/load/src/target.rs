//! Where connections go to, and where they come from.

use std::net::{IpAddr, SocketAddr};

/// The two ends of a thread's connections.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) server: SocketAddr,
    /// Source addresses; with none the kernel chooses.
    pub(crate) sources: Vec<IpAddr>,
    /// Number of the thread's first slot among those of all threads.
    pub(crate) first: u32,
}

impl Target {
    /// The address that a slot connects from: slots take turns, so that ports are used evenly.
    pub(crate) fn source(&self, slot: u32) -> Option<IpAddr> {
        let number = self.first as usize + slot as usize;
        (!self.sources.is_empty()).then(|| self.sources[number % self.sources.len()])
    }
}
