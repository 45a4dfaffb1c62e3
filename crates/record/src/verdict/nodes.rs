//! What each node of a fleet measured.

use serde::{Deserialize, Serialize};

use crate::node::Node;

/// One node's blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// The node.
    pub node: Node,
    /// Blocks that it ran, those without a figure among them.
    pub blocks: u32,
    /// Its means, by workload and arm.
    pub means: Vec<NodeMean>,
}

/// A node's mean of the primary metric of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeMean {
    /// The workload's id.
    pub workload: String,
    /// The metric's name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The arm that is compared with the baseline.
    pub arm: String,
    /// Blocks with figures of both.
    pub blocks: u32,
    /// The baseline's geometric mean; the arithmetic one where some figures are zero.
    pub baseline: f64,
    /// The arm's.
    pub figure: f64,
}
