//! Why an arm differs: costs and waits by function of the kernel.

pub mod document;
pub mod find;
pub mod mechanism;
pub mod tell;
