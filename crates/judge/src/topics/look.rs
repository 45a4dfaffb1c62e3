//! Verdicts of an interim look.

pub(crate) mod tell;
