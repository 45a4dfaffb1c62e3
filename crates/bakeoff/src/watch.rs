//! Shows runs while they go on, in a terminal and as web pages. Nothing here changes a run.
//!
//! ```text
//! terminal  one run in a terminal: screen, keys; without a terminal, lines
//! web       all runs below a directory, as pages that update themselves
//! ```

pub mod terminal;
pub mod web;
