//! Blocks of instructions, as QEMU translates and executes them.

use crate::decode::{Kind, Last};
use crate::functions::{Place, flag};

/// A block of instructions. What each execution looks at lies in one cache line: guests have tens of thousands of blocks.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Block {
    /// What is looked at each time.
    pub shape: Shape,
    /// The last node that it began, and its parent.
    pub began: (u32, u32),
    starts: Box<[u16]>,
}

const _: () = assert!(size_of::<Shape>() + size_of::<(u32, u32)>() == 64);

/// What is looked at each time a block is executed.
#[derive(Debug, Clone, Copy)]
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
            began: (0, u32::MAX),
            starts: starts.into(),
        }
    }

    /// How many of its instructions lie before an address.
    pub fn before(&self, address: u64) -> i32 {
        let offset = address.wrapping_sub(self.shape.address);
        let before = self
            .starts
            .partition_point(|start| u64::from(*start) < offset);
        i32::from(before as u16)
    }
}

impl Shape {
    pub fn is(self, flag: u8) -> bool {
        self.place.flags & flag != 0
    }

    /// Whether another block is the next one of the same function for certain.
    #[inline]
    pub fn goes_on_in(&self, now: &Self) -> bool {
        let is_near = self.place.function == now.place.function && now.place.function != 0;
        let is_plain = self.last.kind == Kind::Other
            && !self.place.is_user
            && !now.is_entry
            && now.place.flags & flag::UNUSUAL == 0;
        is_near
            && is_plain
            && (now.address >= self.end
                || now.address == self.last.target
                || now.address < self.address)
    }

    /// Whether both are user code, and nothing of the one before was left undone.
    #[inline]
    pub fn goes_on_as_user(&self, now: &Self) -> bool {
        self.place.is_user && now.place.is_user && !self.was_left_at(now.address)
    }

    /// Whether nothing but an interrupt or an exception leads here.
    pub fn interrupts(self) -> bool {
        self.is(flag::STUBS) || (self.is_entry && self.is(flag::ENTRY))
    }

    /// Whether control went into the middle of this block although nothing in it jumps there.
    pub fn was_left_at(self, address: u64) -> bool {
        self.address < address
            && address < self.end
            && address != self.last.target
            && !self.last.is_indirect
    }
}
