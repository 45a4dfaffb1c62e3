//! What a reader must know before the figures, what went wrong, and which gates an arm fails.

pub(crate) mod find;
pub(crate) mod gates;
pub(crate) mod tell;
