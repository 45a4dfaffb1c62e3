//! REP string instructions that move or fill, which current CPUs execute in wide chunks.

/// The CPU's resume flag, which QEMU sets from the first iteration to the last.
pub const RESUME: u32 = 1 << 16;

/// A string instruction with a REP prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringOp {
    /// Logarithm of the bytes per iteration: 0 to 3.
    pub size: usize,
}

/// The executions that a translated string instruction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// The first iteration.
    Start,
    /// An iteration after the first.
    Repeat,
    /// QEMU does not tell.
    Unknown,
}

impl StringOp {
    /// Decodes an instruction. Comparing and scanning ones are excluded, because CPUs execute them item by item.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let (prefixes, rest) = split(bytes);
        if !has_rep(prefixes) {
            return None;
        }
        let is_wide = prefixes
            .last()
            .is_some_and(|byte| matches!(byte, 0x48..=0x4f));
        match rest {
            [0xa4 | 0xaa] => Some(Self { size: 0 }),
            [0xa5 | 0xab] if is_wide => Some(Self { size: 3 }),
            [0xa5 | 0xab] if prefixes.contains(&0x66) => Some(Self { size: 1 }),
            [0xa5 | 0xab] => Some(Self { size: 2 }),
            _ => None,
        }
    }
}

/// An instruction's prefixes, and the rest of it.
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let is_prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3 | 0x40..=0x4f);
    bytes.split_at(bytes.iter().take_while(|byte| is_prefix(byte)).count())
}

/// Whether one of these prefixes is REP or REPNE.
pub fn has_rep(prefixes: &[u8]) -> bool {
    prefixes.iter().any(|byte| matches!(byte, 0xf2 | 0xf3))
}
