//! Measured trials by block, each arm's averages, and the reason for each verdict.

pub(crate) mod arm_summary;
pub(crate) mod document;
pub(crate) mod measured;
pub(crate) mod tell;
