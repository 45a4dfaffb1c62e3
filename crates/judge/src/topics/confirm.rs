//! Whether an intervention shows that a suspected mechanism explains a difference.

pub mod document;
pub mod find;
pub mod tell;
