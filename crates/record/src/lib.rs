//! The nouns of the lab: plan, arm, trial, sample, verdict, and the files they live in.
//!
//! Every other room speaks in these types, so this one uses none of the others and opens nothing but
//! the run directory, and in `file` what others hand it a path of. Whatever is serialized here is a promise: a format has a version, and old files
//! stay readable.

pub mod cpu;
pub mod curve;
pub mod evidence;
pub mod fields;
pub mod file;
pub mod journal;
pub mod kernel;
pub mod latency;
pub mod load;
pub mod metric;
pub mod models;
pub mod plan;
pub mod prng;
pub mod problem;
pub mod protocol;
pub mod rundir;
pub mod session;
pub mod text;
pub mod trial;
pub mod units;
pub mod validate;
pub mod verdict;

/// Version of bakeoff that wrote a record; host and agent must carry the same one.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
