//! The machine that measured: its description, its speed during the run, and its A/A runs.

pub(crate) mod a_a;
pub(crate) mod find;
pub(crate) mod tell;
