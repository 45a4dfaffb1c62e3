//! Runs while they go on, in a terminal and as a web page. Nothing here changes a run.
//!
//! ```text
//! terminal  one run in a terminal: screen, keys; without a terminal a line a second
//! web       all runs below a directory as pages that keep themselves up to date
//! ```

pub mod terminal;
pub mod web;
