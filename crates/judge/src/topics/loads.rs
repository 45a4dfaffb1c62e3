//! Figures against the load, and at which loads an arm is better.

pub(crate) mod curves;
pub(crate) mod find;
pub(crate) mod tell;
