//! Price of string instructions, where instructions are counted.

use serde::{Deserialize, Serialize};

/// Price of a REP string instruction that moves or fills, in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StringPrice {
    /// Price of each byte that it moves or fills.
    pub byte: f64,
    /// Price of its start.
    pub start: f64,
}

impl StringPrice {
    /// The default: between data in the nearest cache and data in memory.
    pub const USUAL: Self = Self {
        byte: 0.125,
        start: 10.0,
    };

    /// Alternative prices of a byte for every verdict: of data in the nearest cache, and of data in memory.
    pub const BYTE_RANGE: [f64; 2] = [1.0 / 32.0, 1.0 / 3.0];

    /// The price with another one per byte.
    #[must_use]
    pub fn with_byte(self, byte: f64) -> Self {
        Self { byte, ..self }
    }
}
