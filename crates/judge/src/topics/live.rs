//! Running runs, for a terminal and as web pages.

pub mod document;
pub mod tell;
