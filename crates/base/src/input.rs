//! What people and guests hand over: values with units, bounded text, regular files, and what is wrong with them.
//!
//! It knows no plan, no record and no message: every room that reads something from outside reads it with these.

pub mod file;
pub mod problem;
pub mod text;
pub mod tree;
pub mod units;
