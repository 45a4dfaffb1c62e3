//! Defects in the logs of kernels and services, compared between arms.

pub(crate) mod find;
pub(crate) mod tell;
