//! Which CPU the arms ran on, and whether verdicts hold on another emulated one.

pub mod find;
pub mod tell;
