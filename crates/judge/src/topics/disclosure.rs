//! Everything that a reader who doubts the comparison must know of its set-up.

pub(crate) mod document;
pub(crate) mod find;
pub(crate) mod tell;
