//! Blocks that were disturbed from outside, and disturbances that the plan injects.

pub(crate) mod find;
pub(crate) mod planned;
pub(crate) mod tell;
