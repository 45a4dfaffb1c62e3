//! What string instructions cost on this host, in plain instructions: prices for where instructions are counted.

#[cfg(target_arch = "x86_64")]
mod x86_64;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StringCost {
    /// Time of a plain instruction.
    pub instruction_ns: f64,
    /// A byte of data in the nearest cache, in instructions.
    pub cached_byte: f64,
    /// A byte of data in memory, in instructions.
    pub memory_byte: f64,
    /// The start of a string instruction, in instructions.
    pub start: f64,
}

/// Measures for about a second; `None` on an architecture without string instructions.
pub fn measure() -> Option<StringCost> {
    #[cfg(target_arch = "x86_64")]
    {
        Some(x86_64::measure())
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}
