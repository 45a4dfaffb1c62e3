//! Facts that differ between arms: which of them matter, and which can be pinned.

mod causes;
pub(crate) mod find;
pub(crate) mod tell;
pub(crate) mod weigh;
