//! The host command: the command line, and the lab that runs plans.
//!
//! It is a library besides its binary, so that integration tests can run the lab on fake machines.

// These macros panic if the reader is gone; `out` does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod agent;
mod arm_needs;
pub mod bisect;
pub mod build_id;
pub mod bundle;
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
