//! Foundations for all crates: input from people and guests, child processes, secrets, hardware, reasons to skip a test.

pub mod hardware;
pub mod input;
pub mod process;
pub mod secret;
pub mod skip;
