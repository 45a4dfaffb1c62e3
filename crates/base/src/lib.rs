//! Foundations for all crates: input from people and guests, histograms of latencies, child processes, secrets, hardware, reasons to
//! skip a test.

pub mod hardware;
pub mod input;
pub mod latency;
pub mod process;
pub mod secret;
pub mod skip;
