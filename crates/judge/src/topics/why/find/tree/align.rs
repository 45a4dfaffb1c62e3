//! Aligns paths on which the arms differ by a function in between.
//!
//! ```text
//! old: do_writev > do_iter_write > sock_write_iter      one arm has an additional function: its callees are lifted to its
//! new: do_writev > sock_write_iter                      caller, and it becomes their sibling
//!
//! old: recvfrom > inet_recvmsg > tcp_recvmsg            each arm has a different function: they become one frame with two names
//! new: recvfrom > sock_recvmsg > tcp_recvmsg
//! ```
//! Without this, a kernel that splits or inlines one function would show everything below it as vanished and new. Both cases have
//! the same condition: most of the function's total is in functions that the other arm calls there.

use std::collections::HashSet;

use super::{Frame, Name, add};

/// Functions are searched this many calls below. A rewritten path from system call to network card has ten functions of other
/// names before both arms call the same ones again, as that of sendfile has between 6.1 and 7.2.
const REACH: u32 = 16;

/// Share of a frame that must be in functions of the other arm.
const MOST: f64 = 0.5;

/// A frame belongs to one arm if the other arm's total is at most this share of it.
///
/// It need not be zero, because a function that ends in a call of another one is its sibling.
const HARDLY: f64 = 0.1;

fn is_mostly_in(frame: &Frame, side: usize) -> bool {
    frame.total[1 - side] <= HARDLY * frame.total[side]
}

/// Aligns a frame and all below it that are in both arms and have a total of at least `least`.
pub(crate) fn align(frame: &mut Frame, least: f64) {
    for side in [0, 1] {
        lift(frame, side, least);
    }
    pair(frame, least);
    for child in &mut frame.children {
        if least <= child.most() && child.total.iter().all(|total| *total > 0.0) {
            align(child, least);
        }
    }
}

/// Indices of children that belong to one arm and have a total of at least `least`.
fn lone(caller: &Frame, side: usize, least: f64) -> Vec<usize> {
    let is_lone = |frame: &Frame| is_mostly_in(frame, side) && least <= frame.total[side];
    (0..caller.children.len())
        .filter(|index| is_lone(&caller.children[*index]))
        .collect()
}

/// Lifts callees of functions that only one arm has, if the other arm calls them directly.
fn lift(caller: &mut Frame, side: usize, least: f64) {
    let direct = caller.children.iter();
    let direct = direct.filter(|child| is_mostly_in(child, 1 - side));
    let direct: HashSet<Name> = direct.map(|child| child.name).collect();
    if direct.is_empty() {
        return;
    }
    for index in lone(caller, side, least) {
        let between = &mut caller.children[index];
        if reached(between, &direct, side, REACH) < MOST * between.total[side] {
            continue;
        }
        let via = between.name;
        let mut lifted = Vec::new();
        take(between, &direct, REACH, &mut lifted);
        between.sum_up();
        for mut frame in lifted {
            frame.via[side] = Some(via);
            add_child(caller, frame);
        }
    }
}

/// The part of a frame's total in the outermost functions with these names.
fn reached(frame: &Frame, names: &HashSet<Name>, side: usize, reach: u32) -> f64 {
    let each = frame.children.iter().map(|child| {
        if names.contains(&child.name) {
            child.total[side]
        } else if reach > 1 {
            reached(child, names, side, reach - 1)
        } else {
            0.0
        }
    });
    each.sum()
}

/// Moves the outermost functions with these names from a frame to `taken`.
fn take(frame: &mut Frame, names: &HashSet<Name>, reach: u32, taken: &mut Vec<Frame>) {
    for mut child in std::mem::take(&mut frame.children) {
        if names.contains(&child.name) {
            taken.push(child);
            continue;
        }
        if reach > 1 {
            take(&mut child, names, reach - 1, taken);
        }
        frame.children.push(child);
    }
}

/// Merges a vanished function and a new one if both call mostly the same functions.
fn pair(caller: &mut Frame, least: f64) {
    let (vanished, new) = (lone(caller, 0, least), lone(caller, 1, least));
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for old in &vanished {
        for new in &new {
            let common = common(&caller.children[*old], &caller.children[*new]);
            pairs.extend(common.map(|common| (common, *old, *new)));
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut merged: HashSet<usize> = HashSet::new();
    for (_, old, new) in pairs {
        if merged.contains(&old) || caller.children[new].from.is_some() {
            continue;
        }
        merged.insert(old);
        let before = caller.children[old].clone();
        let after = &mut caller.children[new];
        after.from = Some(before.name);
        merge(after, before);
    }
    let mut index = 0..;
    caller
        .children
        .retain(|_| !index.next().is_some_and(|index| merged.contains(&index)));
}

/// Instructions of both frames in functions that both call; `None` if that is not most of each frame.
fn common(old: &Frame, new: &Frame) -> Option<f64> {
    let common = [(old, new, 0), (new, old, 1)].map(|(frame, other, side)| {
        let mut names = HashSet::new();
        callees(other, REACH, &mut names);
        (reached(frame, &names, side, REACH), frame.total[side])
    });
    let is_most = common.iter().all(|(common, all)| MOST * all <= *common);
    is_most.then(|| common[0].0 + common[1].0)
}

/// Collects the names of direct and indirect callees.
fn callees(frame: &Frame, reach: u32, names: &mut HashSet<Name>) {
    for child in &frame.children {
        names.insert(child.name);
        if reach > 1 {
            callees(child, reach - 1, names);
        }
    }
}

/// Adds a frame and all below it to another one.
fn merge(into: &mut Frame, other: Frame) {
    add(&mut into.own, other.own);
    add(&mut into.total, other.total);
    add(&mut into.calls, other.calls);
    into.from = into.from.or(other.from);
    for side in [0, 1] {
        into.via[side] = into.via[side].or(other.via[side]);
    }
    for child in other.children {
        add_child(into, child);
    }
}

/// Adds a child, or merges it with the child of the same name.
fn add_child(parent: &mut Frame, frame: Frame) {
    let mut children = parent.children.iter_mut();
    match children.find(|child| child.name == frame.name) {
        Some(child) => merge(child, frame),
        None => parent.children.push(frame),
    }
}
