//! Arms that differ only in their number of CPUs.

pub(crate) mod find;
pub(crate) mod tell;
