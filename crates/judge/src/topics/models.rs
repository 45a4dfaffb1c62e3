//! Whether verdicts hold on other emulated CPUs, and which mitigations the arms used.

pub mod find;
pub mod tell;
