//! The one integration test binary: the whole program, from the plan to the report.

mod bad_input;
mod crate_edges;
mod simulated_lab;
