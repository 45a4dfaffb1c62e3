//! What all metrics of an arm say together.

pub(crate) mod find;
pub(crate) mod tell;
