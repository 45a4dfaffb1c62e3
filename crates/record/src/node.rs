//! A node of a cluster.

use serde::{Deserialize, Serialize};

/// The node that runs a block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Node {
    /// Its name in the cluster.
    pub name: String,
    /// Its host name.
    pub hostname: String,
    /// Its CPU model, as its kernel reports it.
    pub cpu_model: Option<String>,
    /// Number of CPUs on which bakeoff could run.
    pub cpus: u32,
}
