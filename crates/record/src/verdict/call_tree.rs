//! The call trees of two arms as one, so that a path that grew, vanished or is new can be seen where it hangs.

use serde::{Deserialize, Serialize};

use super::mechanism::{Mechanism, Presence};

/// Call paths of both arms, in instructions a request, means over the blocks that are explained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallTree {
    /// Paths of less than this in both arms are one node of their caller's, in instructions a request.
    pub least: f64,
    /// Callers before those whom they call, a caller's costliest first. The first is the whole; it has no name. What all
    /// nodes execute themselves comes to the account.
    pub nodes: Vec<CallNode>,
    /// What each function executes itself on all paths together, folded ones among them; the largest difference first.
    pub functions: Vec<FunctionSum>,
}

/// A function on all paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionSum {
    /// Its name, as in `CallNode::name`.
    pub name: String,
    /// Instructions a request of the function itself, in the baseline and in the arm.
    pub own: [f64; 2],
}

/// A function as it is called on one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallNode {
    /// Place of its caller in `CallTree::nodes`; `None` of the whole.
    pub parent: Option<u32>,
    /// Its name without what compilers append, the arm's where the arms have different ones; empty of the whole and of
    /// folded paths.
    pub name: String,
    /// What it counts for.
    pub mechanism: Mechanism,
    /// In which arms this path is; of the function itself `elsewhere` says more.
    pub presence: Presence,
    /// Whether the arm that lacks the path executes the function on another one.
    pub elsewhere: bool,
    /// Functions between the caller and this one that one arm alone has there: the baseline's, the arm's. They stand beside
    /// the node, without what they call here.
    pub via: [Option<String>; 2],
    /// Of folded paths, how many nodes those are in both arms together; else 0.
    pub folded: u32,
    /// Instructions a request of the function itself, in the baseline and in the arm.
    pub own: [f64; 2],
    /// The same with all that it calls.
    pub total: [f64; 2],
    /// Calls a request; 0 in programs and of folded paths.
    pub calls: [f64; 2],
}
