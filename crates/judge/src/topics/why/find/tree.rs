//! Both arms' call trees as one tree: joined by path and name, with small frames folded.
//!
//! ```text
//! accounts --joined--> a frame for each path, with the counts of both arms
//!          --align---> aligns paths on which one arm has an additional or a different function (`tree/align.rs`)
//!          --fold----> small frames become one frame below their caller
//! ```
//! Nothing is lost: the sum of what all nodes execute by themselves is the sum of the accounts.

use std::collections::{BTreeMap, HashMap};

use record::account::Account;
use record::verdict::call_tree::{CallNode, CallTree, FunctionSum};
use record::verdict::mechanism::{Mechanism, Presence};

use super::table::{self, Row};
use crate::topics::why::mechanism;

mod align;

/// Paths below this share of a request in both arms are folded.
const LEAST: f64 = 1e-3;

/// Deeper frames count for their ancestor at this depth. Real paths are far shorter; the limit bounds recursion over the tree.
const DEEPEST: u32 = 256;

/// Index of a name.
type Name = u32;

/// A function on one path.
#[derive(Debug, Clone, PartialEq)]
struct Frame {
    name: Name,
    /// Its name in the baseline, if that differs.
    from: Option<Name>,
    /// The function in between through which each arm calls it, if it was lifted to a caller further up.
    via: [Option<Name>; 2],
    mechanism: Mechanism,
    /// Without what it calls.
    own: [f64; 2],
    total: [f64; 2],
    calls: [f64; 2],
    children: Vec<Frame>,
}

impl Frame {
    fn new(name: Name, mechanism: Mechanism) -> Self {
        Self {
            name,
            from: None,
            via: [None; 2],
            mechanism,
            own: [0.0; 2],
            total: [0.0; 2],
            calls: [0.0; 2],
            children: Vec::new(),
        }
    }

    /// The larger one of both arms' totals.
    fn most(&self) -> f64 {
        self.total[0].max(self.total[1])
    }

    /// Whether one arm alone has this path.
    fn is_only_in(&self, side: usize) -> bool {
        self.total[side] > 0.0 && self.total[1 - side] <= 0.0
    }

    /// Computes the totals of this frame and all below.
    fn sum_up(&mut self) {
        self.total = self.own;
        for child in &mut self.children {
            child.sum_up();
            add(&mut self.total, child.total);
        }
    }

    /// The number of frames from this one down.
    fn count(&self) -> u32 {
        1 + self.children.iter().map(Self::count).sum::<u32>()
    }
}

fn add(sum: &mut [f64; 2], more: [f64; 2]) {
    sum[0] += more[0];
    sum[1] += more[1];
}

/// The tree of usable accounts, the baseline's first; `rows` tells which functions were renamed.
pub(crate) fn tree(sides: &[Vec<&Account>; 2], rows: &[Row]) -> CallTree {
    let mut joined = Joined::new(rows);
    for (side, accounts) in sides.iter().enumerate() {
        for account in accounts {
            joined.add(account, side, 1.0 / (account.work * accounts.len() as f64));
        }
    }
    let Joined { names, frames, .. } = joined;
    let mut root = nested(frames);
    root.sum_up();
    let functions = functions(&root);
    let least = LEAST * f64::midpoint(root.total[0], root.total[1]);
    align::align(&mut root, least);
    root.sum_up();
    let mut flat = Flat {
        names: &names.all,
        functions: &functions,
        least,
        nodes: Vec::new(),
    };
    flat.push(&root, None);
    CallTree {
        least,
        nodes: flat.nodes,
        functions: sorted(&functions, &names.all),
    }
}

/// What each function executes by itself on all paths.
type Functions = BTreeMap<Name, [f64; 2]>;

fn functions(root: &Frame) -> Functions {
    fn collect(frame: &Frame, functions: &mut Functions) {
        for child in &frame.children {
            add(functions.entry(child.name).or_default(), child.own);
            collect(child, functions);
        }
    }
    let mut functions = Functions::new();
    collect(root, &mut functions);
    functions
}

/// The largest difference first.
fn sorted(functions: &Functions, names: &[String]) -> Vec<FunctionSum> {
    let executed = functions
        .iter()
        .filter(|(_, sums)| sums.iter().any(|sum| *sum > 0.0));
    let mut sums: Vec<FunctionSum> = executed
        .map(|(name, sums)| FunctionSum {
            name: names[*name as usize].clone(),
            own: *sums,
        })
        .collect();
    let size = |sum: &FunctionSum| (sum.own[1] - sum.own[0]).abs();
    sums.sort_by(|a, b| size(b).total_cmp(&size(a)));
    sums
}

#[derive(Default)]
struct Names {
    all: Vec<String>,
    indices: HashMap<String, Name>,
}

impl Names {
    fn index(&mut self, name: &str) -> Name {
        if let Some(index) = self.indices.get(name) {
            return *index;
        }
        let index = self.all.len() as Name;
        self.all.push(name.into());
        self.indices.insert(name.into(), index);
        index
    }
}

/// Where an account's node is in the joined tree.
#[derive(Debug, Clone, Copy)]
struct Position {
    frame: usize,
    depth: u32,
}

/// Accounts joined by path.
struct Joined<'r> {
    names: Names,
    /// By mechanism and name in the baseline: the name in the arm.
    renamed: HashMap<(Mechanism, &'r str), &'r str>,
    /// The index of its caller for each frame. Frames have no children yet.
    frames: Vec<(usize, Frame)>,
    /// The frame of each caller and name.
    by_caller: HashMap<(usize, Name), usize>,
}

impl<'r> Joined<'r> {
    fn new(rows: &'r [Row]) -> Self {
        let mut names = Names::default();
        let root = Frame::new(names.index(""), Mechanism::Other);
        let renamed = rows.iter().filter_map(|row| {
            let from = row.from.as_deref()?;
            Some(((row.mechanism, from), row.name.as_str()))
        });
        Self {
            names,
            renamed: renamed.collect(),
            frames: vec![(0, root)],
            by_caller: HashMap::new(),
        }
    }

    /// Adds one trial, each count multiplied by `factor`.
    fn add(&mut self, account: &Account, side: usize, factor: f64) {
        let names: Vec<String> = account
            .functions
            .iter()
            .map(mechanism::compared_name)
            .collect();
        let mechanisms = table::mechanisms(account).unwrap_or_default();
        let mut positions: Vec<Position> = Vec::with_capacity(account.nodes.len());
        let root = Position { frame: 0, depth: 0 };
        let nodes = account.nodes.iter().zip(table::calls(account));
        for ((node, calls), mechanism) in nodes.zip(mechanisms) {
            let parent = node.parent.map(|parent| positions[parent as usize]);
            let caller = parent.unwrap_or(root);
            let position = if caller.depth < DEEPEST {
                let name = names[node.function as usize].as_str();
                self.callee(caller, side, mechanism, name)
            } else {
                caller
            };
            let (_, frame) = &mut self.frames[position.frame];
            frame.own[side] += node.instructions as f64 * factor;
            frame.calls[side] += calls as f64 * factor;
            positions.push(position);
        }
    }

    /// The position of a function below its caller; adds a frame if there is none.
    fn callee(
        &mut self,
        caller: Position,
        side: usize,
        mechanism: Mechanism,
        name: &str,
    ) -> Position {
        let renamed = self.renamed.get(&(mechanism, name));
        let new_name = renamed.filter(|_| side == 0).copied();
        let index = self.names.index(new_name.unwrap_or(name));
        let from = new_name.map(|_| self.names.index(name));
        let next = self.frames.len();
        let frame = *self.by_caller.entry((caller.frame, index)).or_insert(next);
        if frame == next {
            self.frames
                .push((caller.frame, Frame::new(index, mechanism)));
        }
        let (_, known) = &mut self.frames[frame];
        known.from = known.from.or(from);
        Position {
            frame,
            depth: caller.depth + 1,
        }
    }
}

/// Builds a tree of frames that are each behind their caller, without paths that executed nothing.
fn nested(mut frames: Vec<(usize, Frame)>) -> Frame {
    while frames.len() > 1 {
        let Some((caller, mut frame)) = frames.pop() else {
            break;
        };
        let is_empty = frame.children.is_empty() && frame.own.iter().all(|sum| *sum <= 0.0);
        if !is_empty {
            frame.children.reverse();
            frames[caller].1.children.push(frame);
        }
    }
    let (_, mut root) = frames.pop().expect("the root is the first frame");
    root.children.reverse();
    root
}

/// Converts the tree to a list of nodes, each behind its parent.
struct Flat<'f> {
    names: &'f [String],
    functions: &'f Functions,
    least: f64,
    nodes: Vec<CallNode>,
}

impl Flat<'_> {
    fn push(&mut self, frame: &Frame, parent: Option<u32>) {
        let index = self.nodes.len() as u32;
        let presence = match frame.from {
            _ if frame.is_only_in(0) => Presence::Vanished,
            _ if frame.is_only_in(1) => Presence::New,
            Some(from) => Presence::Renamed {
                from: self.name(from),
            },
            None => Presence::Both,
        };
        let lacking = usize::from(frame.is_only_in(0));
        self.nodes.push(CallNode {
            parent,
            name: self.name(frame.name),
            mechanism: frame.mechanism,
            elsewhere: matches!(presence, Presence::Vanished | Presence::New)
                && self.functions[&frame.name][lacking] > 0.0,
            presence,
            via: frame.via.map(|name| name.map(|name| self.name(name))),
            folded: 0,
            own: frame.own,
            total: frame.total,
            calls: frame.calls,
        });
        let is_small = |child: &&Frame| child.most() < self.least;
        let (small, mut large): (Vec<&Frame>, Vec<&Frame>) =
            frame.children.iter().partition(is_small);
        large.sort_by(|a, b| b.most().total_cmp(&a.most()));
        for child in large {
            self.push(child, Some(index));
        }
        if !small.is_empty() {
            self.push_folded(&small, frame, index);
        }
    }

    fn push_folded(&mut self, small: &[&Frame], caller: &Frame, parent: u32) {
        let mut total = [0.0; 2];
        for frame in small {
            add(&mut total, frame.total);
        }
        self.nodes.push(CallNode {
            parent: Some(parent),
            name: String::new(),
            mechanism: caller.mechanism,
            presence: Presence::Both,
            elsewhere: false,
            via: [None, None],
            folded: small.iter().map(|frame| frame.count()).sum(),
            own: total,
            total,
            calls: [0.0; 2],
        });
    }

    fn name(&self, name: Name) -> String {
        self.names[name as usize].clone()
    }
}

#[cfg(test)]
mod tests;
