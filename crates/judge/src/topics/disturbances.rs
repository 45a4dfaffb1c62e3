//! Blocks that something outside disturbed, and disturbances that the plan ordered.

pub(crate) mod find;
pub(crate) mod planned;
pub(crate) mod tell;
