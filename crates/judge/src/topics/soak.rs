//! Long trials: failures, growth of counters, service over time.

pub mod document;
pub mod find;
pub mod growth;
pub mod reliability;
pub mod service;
pub mod tell;
