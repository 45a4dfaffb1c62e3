//! Blocks of instructions that QEMU translates and executes.

use crate::decode::{Kind, Last};
use crate::functions::{Place, flag};

/// A block of instructions.
#[derive(Debug, Clone)]
pub struct Block {
    /// Its place, and its effect on the flow of control.
    pub shape: Shape,
    /// Start of each instruction, as an offset from the block's address.
    pub starts: Box<[u16]>,
}

/// A block without its instructions, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Shape {
    /// First address.
    pub address: u64,
    /// Address after the block.
    pub end: u64,
    /// Number of instructions.
    pub count: i32,
    /// The last instruction.
    pub last: Last,
    /// Where it lies.
    pub place: Place,
    /// Whether it starts a function.
    pub is_entry: bool,
}

impl Block {
    /// A block from its addresses, last instruction, place, and instruction starts.
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

    /// Whether `now` certainly continues this block in the same function, or in user code.
    pub fn continues_in(&self, now: &Self) -> bool {
        match (self.place.is_user, now.place.is_user) {
            (true, true) => !self.was_left_at(now.address),
            (false, false) => self.continues_in_function(now),
            (true, false) | (false, true) => false,
        }
    }

    fn continues_in_function(&self, now: &Self) -> bool {
        let is_near = self.place.function == now.place.function && now.place.function != 0;
        let is_plain =
            self.last.kind == Kind::Other && !now.is_entry && now.place.flags & flag::UNUSUAL == 0;
        is_near
            && is_plain
            && (now.address >= self.end
                || now.address == self.last.target
                || now.address < self.address)
    }

    /// Whether only an interrupt or an exception leads here.
    pub fn interrupts(&self) -> bool {
        self.is(flag::STUBS) || (self.is_entry && self.is(flag::ENTRY))
    }

    /// Whether control went into the middle of this block although it contains no jump there.
    pub fn was_left_at(&self, address: u64) -> bool {
        self.address < address
            && address < self.end
            && address != self.last.target
            && !self.last.is_indirect
    }
}

const _: () = assert!(size_of::<Shape>() == 64);

/// No node, below no parent.
pub const NOT_BEGUN: (u32, u32) = (0, u32::MAX);

/// The data that each execution of a block reads: two per cache line, because guests have a hundred thousand blocks.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub struct Hot {
    /// Number of instructions.
    pub count: i32,
    /// Bytes per iteration, if the last instruction is a REP string instruction that moves or fills; else 0.
    pub string_bytes: u8,
    /// Whether it is user code.
    pub is_user: bool,
    /// Blocks that certainly continue it, the latest first.
    pub next: [u32; 2],
    /// The last node that it started, and that node's parent.
    pub began: (u32, u32),
    /// Low half of its end address, which identifies iterations of one string instruction.
    pub low_end: u32,
}

const _: () = assert!(size_of::<Hot>() == 32);

impl Hot {
    /// A block whose successors are unknown.
    pub fn new(shape: &Shape) -> Self {
        Self {
            count: shape.count,
            string_bytes: shape.last.string_bytes,
            is_user: shape.place.is_user,
            next: [u32::MAX; 2],
            began: NOT_BEGUN,
            low_end: shape.end as u32,
        }
    }
}
