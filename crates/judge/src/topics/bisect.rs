//! Finds the two neighbouring versions between which a metric changed.

pub mod find;
pub mod tell;
