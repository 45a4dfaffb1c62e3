//! Curves of figures against load, and the loads at which an arm is better.

pub(crate) mod curves;
pub(crate) mod find;
pub(crate) mod tell;
