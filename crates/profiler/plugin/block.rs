//! Blocks of instructions, as QEMU translates and executes them.

use crate::decode::{Kind, Last};
use crate::functions::{Place, flag};

/// A block of instructions.
#[derive(Debug, Clone)]
pub struct Block {
    /// Where it lies, and what it does to the flow of control.
    pub shape: Shape,
    /// Where its instructions begin, from its address.
    pub starts: Box<[u16]>,
}

/// A block without its instructions, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Shape {
    /// Its first address.
    pub address: u64,
    /// The address behind it.
    pub end: u64,
    /// Instructions.
    pub count: i32,
    /// The last one.
    pub last: Last,
    /// Where it lies.
    pub place: Place,
    /// Whether a function begins with it.
    pub is_entry: bool,
}

impl Block {
    /// From its addresses, its last instruction, where it lies, and where its instructions begin.
    pub fn new(address: u64, end: u64, last: Last, place: Place, starts: &[u16]) -> Self {
        let shape = Shape {
            address,
            end,
            count: i32::from(starts.len() as u16),
            last,
            place,
            is_entry: !place.is_user && place.function == address,
        };
        Self {
            shape,
            starts: starts.into(),
        }
    }
}

impl Shape {
    pub fn is(&self, flag: u8) -> bool {
        self.place.flags & flag != 0
    }

    /// Whether another block is the next one of the same function, or of user code, for certain.
    pub fn goes_on_in(&self, now: &Self) -> bool {
        match (self.place.is_user, now.place.is_user) {
            (true, true) => !self.was_left_at(now.address),
            (false, false) => self.goes_on_in_function(now),
            (true, false) | (false, true) => false,
        }
    }

    fn goes_on_in_function(&self, now: &Self) -> bool {
        let is_near = self.place.function == now.place.function && now.place.function != 0;
        let is_plain =
            self.last.kind == Kind::Other && !now.is_entry && now.place.flags & flag::UNUSUAL == 0;
        is_near
            && is_plain
            && (now.address >= self.end
                || now.address == self.last.target
                || now.address < self.address)
    }

    /// Whether nothing but an interrupt or an exception leads here.
    pub fn interrupts(&self) -> bool {
        self.is(flag::STUBS) || (self.is_entry && self.is(flag::ENTRY))
    }

    /// Whether control went into the middle of this block although nothing in it jumps there.
    pub fn was_left_at(&self, address: u64) -> bool {
        self.address < address
            && address < self.end
            && address != self.last.target
            && !self.last.is_indirect
    }
}

const _: () = assert!(size_of::<Shape>() == 64);

/// What each execution of a block looks at: two in a cache line, because guests have a hundred thousand blocks.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub struct Hot {
    /// Instructions.
    pub count: i32,
    /// Bytes of an iteration, where the last one is a string instruction with a REP prefix that moves or fills; else 0.
    pub string_bytes: u8,
    /// Whether it is user code.
    pub is_user: bool,
    /// Blocks that it went on in for certain, the last one first.
    pub next: [u32; 2],
    /// The last node that it began, and its parent.
    pub began: (u32, u32),
    /// The end of its address, by which iterations of one string instruction are known.
    pub low_end: u32,
}

const _: () = assert!(size_of::<Hot>() == 32);

impl Hot {
    /// Nothing is known yet of what comes next.
    pub fn new(shape: &Shape) -> Self {
        Self {
            count: shape.count,
            string_bytes: shape.last.string_bytes,
            is_user: shape.place.is_user,
            next: [u32::MAX; 2],
            began: (0, u32::MAX),
            low_end: shape.end as u32,
        }
    }
}
