//! The nouns of the lab: plan, arm, trial, sample, verdict, and the files they live in.
//!
//! Every other room speaks in these types, so this one uses none of the others and opens nothing but
//! the run directory, and in `file` what others hand it a path of. Whatever is serialized here is a promise: a format has a version.

pub mod a_a;
pub mod account;
pub mod bisect;
mod check;
pub mod counters;
pub mod curve;
pub mod defect;
pub mod disturbances;
pub mod evidence;
pub mod fact;
pub mod fleet;
pub mod hardware_counters;
pub mod hash;
pub mod incidents;
pub mod instructions;
pub mod journal;
mod json;
pub mod latency;
mod lines;
pub mod load;
pub mod load_path;
pub mod machine;
pub mod metric;
pub mod models;
pub mod night;
pub mod node;
pub mod prng;
pub mod rundir;
pub mod streamed;
pub mod thinned;
pub mod trend;
pub mod trial;
pub mod validate;
pub mod verdict;

/// Version of bakeoff that wrote a record; host and agent must carry the same one.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
