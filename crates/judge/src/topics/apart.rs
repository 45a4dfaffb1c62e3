//! Two runs of the same arms that were not interleaved.

pub mod find;
pub mod tell;
