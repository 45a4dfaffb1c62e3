//! What can be said of a run, a folder for each topic.
//!
//! `find` turns the run into data and holds no prose. `tell` turns these data into sentences and tables. `document`, where a
//! topic has one, puts them into pages and text.

pub mod apart;
pub mod bisect;
pub mod confirm;
pub(crate) mod defects;
pub(crate) mod differences;
pub(crate) mod disclosure;
pub(crate) mod disturbances;
pub mod fairness;
pub(crate) mod headline;
pub(crate) mod host;
pub(crate) mod limits;
pub mod live;
pub(crate) mod loads;
pub(crate) mod look;
pub(crate) mod metrics;
pub mod models;
pub mod night;
pub mod nodes;
pub(crate) mod overview;
pub(crate) mod prices;
pub mod robustness;
pub(crate) mod run_state;
pub(crate) mod scaling;
pub mod soak;
pub(crate) mod warnings;
pub mod why;
