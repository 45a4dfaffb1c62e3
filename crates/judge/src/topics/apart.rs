//! Compares two separate runs of the same arms, whose trials did not alternate.

pub mod find;
pub mod tell;
