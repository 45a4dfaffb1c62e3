//! Both arms' call trees as one: joined by path and name, without what is too small to be seen.
//!
//! ```text
//! accounts --joined--> a frame for each path, counts of either arm
//!          --align---> paths on which one arm has a function more, or another one (`tree/align.rs`)
//!          --fold----> small frames are one of their caller's
//! ```
//! Nothing is lost on the way: what all nodes execute themselves is what the accounts hold.

use std::collections::{BTreeMap, HashMap};

use record::account::Account;
use record::verdict::call_tree::{CallNode, CallTree, FunctionSum};
use record::verdict::mechanism::{Mechanism, Presence};

use super::table::{self, Row};
use crate::topics::why::mechanism;

mod align;

/// Paths below this share of a request in both arms are folded.
const LEAST: f64 = 1e-3;

/// Frames below this one count for it: no path of a healthy profile is nearly as deep, and what walks the tree calls itself.
const DEEPEST: u32 = 256;

/// Place of a name.
type Name = u32;

/// A function on one path.
#[derive(Debug, Clone, PartialEq)]
struct Frame {
    name: Name,
    /// Its name in the baseline, where that is another one.
    from: Option<Name>,
    via: [Option<Name>; 2],
    mechanism: Mechanism,
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

    /// What it comes to where it is more.
    fn most(&self) -> f64 {
        self.total[0].max(self.total[1])
    }

    /// Whether one arm alone has this path.
    fn is_only_in(&self, side: usize) -> bool {
        self.total[side] > 0.0 && self.total[1 - side] <= 0.0
    }

    /// Sums up what it and all below come to.
    fn sum_up(&mut self) {
        self.total = self.own;
        for child in &mut self.children {
            child.sum_up();
            add(&mut self.total, child.total);
        }
    }

    /// Nodes at and below it.
    fn count(&self) -> u32 {
        1 + self.children.iter().map(Self::count).sum::<u32>()
    }
}

fn add(sum: &mut [f64; 2], more: [f64; 2]) {
    sum[0] += more[0];
    sum[1] += more[1];
}

/// The tree of usable accounts, the baseline's first; `rows` knows which functions have two names.
pub(crate) fn tree(sides: &[Vec<&Account>; 2], rows: &[Row]) -> CallTree {
    let mut joined = Joined::new(rows);
    for (side, accounts) in sides.iter().enumerate() {
        for account in accounts {
            joined.add(account, side, 1.0 / (account.work * accounts.len() as f64));
        }
    }
    let Joined { names, frames, .. } = joined;
    let mut whole = nested(frames);
    whole.sum_up();
    let functions = functions(&whole);
    let least = LEAST * f64::midpoint(whole.total[0], whole.total[1]);
    align::align(&mut whole, least);
    whole.sum_up();
    let mut flat = Flat {
        names: &names.all,
        functions: &functions,
        least,
        nodes: Vec::new(),
    };
    flat.push(&whole, None);
    CallTree {
        least,
        nodes: flat.nodes,
        functions: sorted(&functions, &names.all),
    }
}

/// What each function executes itself.
type Functions = BTreeMap<Name, [f64; 2]>;

fn functions(whole: &Frame) -> Functions {
    fn note(frame: &Frame, found: &mut Functions) {
        add(found.entry(frame.name).or_default(), frame.own);
        frame.children.iter().for_each(|child| note(child, found));
    }
    let mut found = Functions::new();
    whole
        .children
        .iter()
        .for_each(|child| note(child, &mut found));
    found
}

/// The largest difference first.
fn sorted(functions: &Functions, names: &[String]) -> Vec<FunctionSum> {
    let each = functions.iter().map(|(name, own)| FunctionSum {
        name: names[*name as usize].clone(),
        own: *own,
    });
    let mut all: Vec<FunctionSum> = each
        .filter(|one| one.own.iter().any(|own| *own > 0.0))
        .collect();
    let size = |one: &FunctionSum| (one.own[1] - one.own[0]).abs();
    all.sort_by(|one, other| size(other).total_cmp(&size(one)));
    all
}

#[derive(Default)]
struct Names {
    all: Vec<String>,
    places: HashMap<String, Name>,
}

impl Names {
    fn place(&mut self, name: &str) -> Name {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.all.len() as Name;
        self.all.push(name.into());
        self.places.insert(name.into(), place);
        place
    }
}

/// Where an account's node is in the joined tree.
#[derive(Debug, Clone, Copy)]
struct Place {
    frame: usize,
    depth: u32,
}

/// Accounts joined by path. Frames have no children yet, but the place of their caller.
struct Joined<'r> {
    names: Names,
    renamed: HashMap<(Mechanism, &'r str), &'r str>,
    frames: Vec<(usize, Frame)>,
    places: HashMap<(usize, Name), usize>,
}

impl<'r> Joined<'r> {
    fn new(rows: &'r [Row]) -> Self {
        let mut names = Names::default();
        let whole = Frame::new(names.place(""), Mechanism::Other);
        let renamed = rows.iter().filter_map(|row| {
            let from = row.from.as_deref()?;
            Some(((row.mechanism, from), row.name.as_str()))
        });
        Self {
            names,
            renamed: renamed.collect(),
            frames: vec![(0, whole)],
            places: HashMap::new(),
        }
    }

    /// Adds one trial; each count by `factor`.
    fn add(&mut self, account: &Account, side: usize, factor: f64) {
        let names: Vec<String> = account
            .functions
            .iter()
            .map(mechanism::compared_name)
            .collect();
        let mechanisms = table::mechanisms(account).unwrap_or_default();
        let mut places: Vec<Place> = Vec::with_capacity(account.nodes.len());
        let nodes = account.nodes.iter().zip(table::calls(account));
        for ((node, calls), mechanism) in nodes.zip(mechanisms) {
            let whole = Place { frame: 0, depth: 0 };
            let caller = node.parent.map_or(whole, |parent| places[parent as usize]);
            let place = if caller.depth < DEEPEST {
                let name = names[node.function as usize].as_str();
                self.below(caller, side, (mechanism, name))
            } else {
                caller
            };
            let (_, frame) = &mut self.frames[place.frame];
            frame.own[side] += node.instructions as f64 * factor;
            frame.calls[side] += calls as f64 * factor;
            places.push(place);
        }
    }

    /// The place of a function that is called by another one.
    fn below(&mut self, caller: Place, side: usize, key: (Mechanism, &str)) -> Place {
        let (mechanism, own) = key;
        let old = self.renamed.get(&key).filter(|_| side == 0).copied();
        let name = self.names.place(old.unwrap_or(own));
        let from = old.map(|_| self.names.place(own));
        let next = self.frames.len();
        let frame = *self.places.entry((caller.frame, name)).or_insert(next);
        if frame == next {
            self.frames
                .push((caller.frame, Frame::new(name, mechanism)));
        }
        let known = &mut self.frames[frame].1;
        known.from = known.from.or(from);
        Place {
            frame,
            depth: caller.depth + 1,
        }
    }
}

/// Frames, each behind its caller, as a tree. Paths without an instruction are left out.
fn nested(mut frames: Vec<(usize, Frame)>) -> Frame {
    while frames.len() > 1 {
        let Some((caller, mut frame)) = frames.pop() else {
            break;
        };
        let is_empty = frame.children.is_empty() && frame.own.iter().all(|own| *own <= 0.0);
        if !is_empty {
            frame.children.reverse();
            frames[caller].1.children.push(frame);
        }
    }
    let (_, mut whole) = frames.pop().expect("the whole is the first frame");
    whole.children.reverse();
    whole
}

/// The tree as it is kept.
struct Flat<'f> {
    names: &'f [String],
    functions: &'f Functions,
    least: f64,
    nodes: Vec<CallNode>,
}

impl Flat<'_> {
    fn push(&mut self, frame: &Frame, parent: Option<u32>) {
        let place = self.nodes.len() as u32;
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
        large.sort_by(|one, other| other.most().total_cmp(&one.most()));
        for child in large {
            self.push(child, Some(place));
        }
        if !small.is_empty() {
            self.push_folded(&small, frame, place);
        }
    }

    fn push_folded(&mut self, small: &[&Frame], caller: &Frame, parent: u32) {
        let mut own = [0.0; 2];
        for frame in small {
            add(&mut own, frame.total);
        }
        self.nodes.push(CallNode {
            parent: Some(parent),
            name: String::new(),
            mechanism: caller.mechanism,
            presence: Presence::Both,
            elsewhere: false,
            via: [None, None],
            folded: small.iter().map(|frame| frame.count()).sum(),
            own,
            total: own,
            calls: [0.0; 2],
        });
    }

    fn name(&self, name: Name) -> String {
        self.names[name as usize].clone()
    }
}

#[cfg(test)]
mod tests;
