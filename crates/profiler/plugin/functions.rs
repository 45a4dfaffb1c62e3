//! The setup that the host passes before the guest starts: functions of the kernel, and its data layout.

/// First bytes of a setup; the number is its version.
pub const MAGIC: &[u8; 8] = b"bkosetp3";

/// Number of words of `Layout` in the file.
const LAYOUT_WORDS: usize = 9;

/// Flags of a function.
pub mod flag {
    /// Interrupts, exceptions and system calls enter the kernel at its first address.
    pub const ENTRY: u8 = 1;
    /// An exception after which the instruction is executed again.
    pub const FAULT: u8 = 2;
    /// Switches stacks.
    pub const SWITCH: u8 = 4;
    /// A task continues in it after a switch.
    pub const RESUME: u8 = 8;
    /// A table of short entries, one per interrupt, that continue in one with `ENTRY`.
    pub const STUBS: u8 = 16;
    /// Calls a function by returning to it.
    pub const THUNK: u8 = 32;
    /// Functions whose blocks need closer inspection.
    pub const UNUSUAL: u8 = SWITCH | STUBS;
}

/// Where the kernel keeps the data that the plugin reads; 0 if the kernel lacks it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// First address of the function that switches stacks.
    pub switch: u64,
    /// In `task_struct`: `comm`, `pid`, `__state`.
    pub comm: u64,
    /// See `comm`.
    pub pid: u64,
    /// See `comm`.
    pub state: u64,
    /// In `task_struct`: `sched_info.run_delay`.
    pub run_delay: u64,
    /// In `task_struct`: `sched_info.last_arrival`.
    pub last_arrival: u64,
    /// In `task_struct`: `sched_info.last_queued`.
    pub last_queued: u64,
    /// In `task_struct`: `sched_info.pcount`.
    pub pcount: u64,
    /// Guest nanoseconds per instruction.
    pub ns_per_instruction: u64,
    /// First address of the kernel's functions, and the address after them.
    pub text: (u64, u64),
}

/// The place of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First address of its function, 0 if unknown; for user code, the block's physical address.
    pub function: u64,
    /// `flag`s of its function.
    pub flags: u8,
    /// Whether it is user code.
    pub is_user: bool,
}

impl Place {
    /// User code.
    pub fn user(physical: u64) -> Self {
        Self {
            function: physical,
            flags: 0,
            is_user: true,
        }
    }
}

/// Functions of the kernel, by address.
pub struct Functions {
    starts: Vec<u64>,
    flags: Vec<u8>,
}

impl Functions {
    /// The place of a kernel address. Modules lie beyond the last function.
    pub fn place(&self, address: u64) -> Place {
        let after = self.starts.partition_point(|start| *start <= address);
        let is_kernel = after > 0 && after < self.starts.len();
        let (function, flags) = if is_kernel {
            (self.starts[after - 1], self.flags[after - 1])
        } else {
            (0, 0)
        };
        Place {
            function,
            flags,
            is_user: false,
        }
    }
}

/// The decoded setup.
pub struct Setup {
    /// Where the kernel keeps the data that is read.
    pub layout: Layout,
    /// Its functions.
    pub functions: Functions,
}

impl Setup {
    /// Decodes the bytes of the file: magic, layout, then address and flags of each function, ascending. The last address
    /// ends the function before it.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let body = bytes
            .strip_prefix(MAGIC)
            .ok_or("not a setup of this version")?;
        let words: Vec<u64> = body
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("a chunk of 8")))
            .collect();
        if words.len() < LAYOUT_WORDS + 4 || !body.len().is_multiple_of(8) {
            return Err("setup cut off".into());
        }
        let (layout, functions) = words.split_at(LAYOUT_WORDS);
        let pairs = functions.chunks_exact(2);
        Ok(Self {
            layout: Layout {
                switch: layout[0],
                comm: layout[1],
                pid: layout[2],
                state: layout[3],
                run_delay: layout[4],
                last_arrival: layout[5],
                last_queued: layout[6],
                pcount: layout[7],
                ns_per_instruction: layout[8],
                text: (functions[0], functions[functions.len() - 2]),
            },
            functions: Functions {
                starts: pairs.clone().map(|pair| pair[0]).collect(),
                flags: pairs.map(|pair| pair[1] as u8).collect(),
            },
        })
    }
}
