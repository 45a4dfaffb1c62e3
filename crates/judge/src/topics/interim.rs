//! Verdicts at an interim analysis.

pub(crate) mod tell;
