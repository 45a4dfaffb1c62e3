//! Whether a repetition of a run agrees with it.

pub mod find;
pub mod tell;
