//! A node of a cluster.

use serde::{Deserialize, Serialize};

/// Who runs a block.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Node {
    /// Its name in the cluster.
    pub name: String,
    /// Its host name.
    pub hostname: String,
    /// Its CPU, as its kernel names it.
    pub cpu_model: Option<String>,
    /// CPUs that bakeoff could run on.
    pub cpus: u32,
}
