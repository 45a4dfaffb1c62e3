//! The call tree and its counts.

use std::hash::Hasher;

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// The whole profile.
    All,
    /// A task, by index in `Engine::names`.
    Task(u32),
    /// A kernel function by its first address; a module's function by the address where it was entered.
    Kernel(u64),
    /// A block of user code, by its physical address.
    User(u64),
}

/// A node of the call tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Its parent; the root is its own parent.
    pub parent: u32,
    /// What it stands for.
    pub key: Key,
    /// Counts since the start.
    pub count: Count,
}

/// A fast hash of a few numbers; collisions need not be prevented against an attacker.
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

/// Counts of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Instructions without those of children. Negative for a moment when a block was cut short.
    pub own: i64,
    /// Iterations of REP string instructions that move or fill, included in `own`.
    pub iterations: i64,
    /// Bytes that these move or fill.
    pub bytes: i64,
    /// Number of starts of such an instruction.
    pub starts: i64,
    /// Number of entries.
    pub calls: u64,
}

/// A direct-mapped cache of nodes by their parent and the block that started them; a lookup in the map costs two cache misses.
pub struct Recent(Box<[Began; RECENT]>);

const RECENT: usize = 1 << 15;

/// A node that a block started below a parent.
#[derive(Debug, Clone, Copy)]
struct Began {
    parent: u32,
    block: u32,
    node: u32,
}

impl Recent {
    /// An empty cache.
    pub fn new() -> Self {
        const NONE: Began = Began {
            parent: u32::MAX,
            block: u32::MAX,
            node: 0,
        };
        let slots = vec![NONE; RECENT].into_boxed_slice();
        Self(slots.try_into().expect("the vector has RECENT elements"))
    }

    /// The node that a block started below a parent, if cached.
    #[inline]
    pub fn get(&self, parent: u32, block: u32) -> Option<u32> {
        let began = &self.0[slot(parent, block)];
        (began.parent == parent && began.block == block).then_some(began.node)
    }

    /// Caches a node.
    pub fn set(&mut self, parent: u32, block: u32, node: u32) {
        self.0[slot(parent, block)] = Began {
            parent,
            block,
            node,
        };
    }
}

fn slot(parent: u32, block: u32) -> usize {
    let mixed = parent.wrapping_mul(0x9e37_79b9) ^ block.wrapping_mul(0x85eb_ca6b);
    (mixed >> 17) as usize % RECENT
}
