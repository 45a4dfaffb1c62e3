//! Between which two versions of a line a metric changed.

pub mod find;
pub mod tell;
