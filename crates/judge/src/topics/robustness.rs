//! What a headline depends on: single blocks, the margin, the metric, prices of instructions.

pub mod document;
pub mod find;
pub mod margins;
pub mod tell;
