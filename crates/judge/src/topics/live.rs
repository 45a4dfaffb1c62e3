//! A run or several while they go on, for a terminal and as web pages.

pub mod document;
pub mod tell;
