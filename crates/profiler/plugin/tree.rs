//! Nodes of the call tree, and what they count.

use std::hash::Hasher;

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// The whole.
    All,
    /// A task, by its place in `Engine::tasks`.
    Task(u32),
    /// A function of the kernel by its first address; one of a module by where it was entered.
    Kernel(u64),
    /// A block of user code, by its physical address.
    User(u64),
}

/// A node of the call tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its parent; the root is its own.
    pub parent: u32,
    /// What it stands for.
    pub key: Key,
    /// Counted since the start.
    pub count: Count,
}

/// A quick hash of a few numbers; nobody chooses them to collide.
#[derive(Debug, Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value.cast_unsigned() as u64);
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Instructions, without those of children. Goes below zero for a moment where a block was cut short.
    pub own: i64,
    /// Iterations of REP string instructions among them.
    pub rep: i64,
    /// Times entered.
    pub calls: u64,
}
