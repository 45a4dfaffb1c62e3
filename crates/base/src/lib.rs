//! Foundations for all crates: input from people and guests, histograms of latencies, child processes, secrets, hardware, reasons to
//! skip a test.

// In this crate, because it is compiled early. rustdoc does not get the flag.
#[cfg(not(any(target_feature = "crt-static", doc)))]
compile_error!(
    "bakeoff is the first process of its guests, so the C library must be linked in: run make build in its clone, or set the \
     variables for cargo install that docs/install.md lists"
);

pub mod arch;
pub mod hardware;
pub mod input;
pub mod latency;
pub mod process;
pub mod secret;
pub mod skip;
