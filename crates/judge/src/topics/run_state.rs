//! Whether a run has ended, and why.

pub(crate) mod tell;
