//! What a reader sees first: the main figures of both arms, the shape of the difference, the most important caveat, and what to do next.

pub(crate) mod document;
pub(crate) mod find;
pub(crate) mod tell;
