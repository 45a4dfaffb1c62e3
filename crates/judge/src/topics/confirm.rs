//! Tests whether a setting explains a difference: the run has arms with and without it.

pub mod document;
pub mod find;
pub mod tell;
