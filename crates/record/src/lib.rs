//! On-disk formats of a run: plan, arm, trial, sample, verdict, and the files that hold them; messages between host and guest
//! (`protocol`); the state of a run that goes on (`live`); runs for tests (`fixtures`).
//!
//! It opens no file outside the run directory, except that `file` opens paths from its caller. What is serialized has a version.

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
pub mod fixtures;
pub mod fleet;
pub mod hardware_counters;
pub mod hash;
pub mod incidents;
pub mod instructions;
pub mod journal;
mod json;
mod lines;
pub mod live;
pub mod load;
pub mod load_path;
pub mod machine;
pub mod metric;
pub mod models;
pub mod night;
pub mod node;
pub mod prng;
pub mod protocol;
pub mod rundir;
pub mod streamed;
pub mod thinned;
pub mod trend;
pub mod trial;
pub mod validate;
pub mod verdict;

/// Version of bakeoff that wrote a record; host and agent must carry the same one.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
