//! The host command: what can be typed, and the lab that runs a plan.
//!
//! It is a library beside its binary so that the integration tests can run the lab on fake machines.

// They panic where nobody reads: `out` is there instead.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod arm_needs;
pub mod bisect;
pub mod build_id;
pub mod cli;
pub mod commands;
pub mod fleet;
pub mod json_lines;
pub mod lab;
pub mod load_cli;
pub mod out;
pub mod plan_text;
pub mod prepare;
pub mod reporter;
pub mod watch;
