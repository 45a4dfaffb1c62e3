//! Decodes the last instruction of a block, and marks; a file for each architecture.

#[path = "decode/aarch64.rs"]
mod aarch64;
#[path = "decode/x86_64.rs"]
mod x86_64;

/// The guest's architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// x86 with 64 bits.
    X86_64,
    /// Arm with 64 bits.
    Aarch64,
}

impl Isa {
    /// By QEMU's name.
    pub fn of_target(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Registers with the first two arguments of a function. The function that switches stacks gets the tasks in them.
    pub fn arguments(self) -> [&'static std::ffi::CStr; 2] {
        match self {
            Self::X86_64 => [c"rdi", c"rsi"],
            Self::Aarch64 => [c"x0", c"x1"],
        }
    }

    /// Decodes the last instruction of a block, at address `at`.
    pub fn last(self, at: u64, bytes: &[u8]) -> Last {
        match self {
            Self::X86_64 => x86_64::last(at, bytes),
            Self::Aarch64 => aarch64::last(at, bytes),
        }
    }

    /// The number of a mark: an instruction without effect that no compiler emits.
    pub fn mark(self, bytes: &[u8]) -> Option<u8> {
        match self {
            Self::X86_64 => x86_64::mark(bytes),
            Self::Aarch64 => aarch64::mark(bytes),
        }
    }
}

/// Where control goes after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To the next instruction, to `Last::target`, or to an address in a register.
    Other,
    /// Into a function.
    Call,
    /// Out of a function.
    Ret,
    /// Back from an interrupt.
    Iret,
}

/// The last instruction of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    /// What it does.
    pub kind: Kind,
    /// Target of a direct jump; a REP string instruction targets itself, because each iteration returns to it. Else 0.
    pub target: u64,
    /// Whether it jumps to an address in a register or memory.
    pub is_indirect: bool,
    /// Whether it is a string instruction with a REP prefix.
    pub is_rep: bool,
    /// Bytes per iteration, if it moves or fills; else 0.
    pub string_bytes: u8,
}

impl Last {
    /// Neither a jump nor a REP.
    pub const OTHER: Self = Self {
        kind: Kind::Other,
        target: 0,
        is_indirect: false,
        is_rep: false,
        string_bytes: 0,
    };
}
