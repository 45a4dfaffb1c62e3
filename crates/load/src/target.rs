//! The endpoints of connections.

use std::net::{IpAddr, SocketAddr};

/// The endpoints of a thread's connections.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Addresses of the server; at least one.
    pub(crate) servers: Vec<SocketAddr>,
    /// Source addresses; if empty, the kernel chooses.
    pub(crate) sources: Vec<IpAddr>,
    /// Speeds of the lines that clients read from; if empty, speed is not limited.
    pub(crate) bits_per_s: Vec<u32>,
    /// Whether the kernel adds receive time stamps.
    pub(crate) stamps: bool,
    /// Number of the thread's first slot among those of all threads.
    pub(crate) first: u32,
}

impl Target {
    /// The address that a slot connects to.
    pub(crate) fn server(&self, slot: u32) -> SocketAddr {
        let server = self.round_robin(&self.servers, slot);
        server.expect("a server has an address")
    }

    /// The address that a slot connects from. Slots take turns, so ports are used evenly.
    pub(crate) fn source(&self, slot: u32) -> Option<IpAddr> {
        self.round_robin(&self.sources, slot)
    }

    /// The speed of a slot's line.
    pub(crate) fn bits_per_s(&self, slot: u32) -> Option<u32> {
        self.round_robin(&self.bits_per_s, slot)
    }

    fn round_robin<T: Copy>(&self, items: &[T], slot: u32) -> Option<T> {
        let number = self.first as usize + slot as usize;
        (!items.is_empty()).then(|| items[number % items.len()])
    }
}
