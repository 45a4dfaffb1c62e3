//! What a string instruction costs where instructions are counted.

use serde::{Deserialize, Serialize};

/// What a REP string instruction that moves or fills costs, in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StringPrice {
    /// Each byte that it moves or fills.
    pub byte: f64,
    /// Its start.
    pub start: f64,
}

impl StringPrice {
    /// What is charged where a plan says nothing: between data in the nearest cache and data in memory.
    pub const USUAL: Self = Self {
        byte: 0.125,
        start: 10.0,
    };

    /// Prices of a byte at which every verdict is judged too: of data in the nearest cache, and of data in memory.
    pub const BYTE_RANGE: [f64; 2] = [1.0 / 32.0, 1.0 / 3.0];

    /// The same price of a start, with another one of a byte.
    #[must_use]
    pub fn with_byte(self, byte: f64) -> Self {
        Self { byte, ..self }
    }
}
