//! Defects in logs of kernels and services, and which are new in an arm.

pub(crate) mod find;
pub(crate) mod tell;
