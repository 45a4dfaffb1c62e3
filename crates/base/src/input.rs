//! Input from people and guests: values with units, bounded text, regular files, and descriptions of mistakes.
//!
//! It knows no plan, no record and no message; every crate that reads outside input uses it.

pub mod file;
pub mod problem;
pub mod text;
pub mod tree;
pub mod units;
