//! Verdicts at an interim check.

pub(crate) mod tell;
