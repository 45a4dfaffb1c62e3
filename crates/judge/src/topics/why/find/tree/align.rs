//! Paths on which the arms differ by a function in between, put side by side.
//!
//! ```text
//! old: do_writev > do_iter_write > sock_write_iter      one arm has a function more: what it calls is lifted to its
//! new: do_writev > sock_write_iter                      caller, and it stands beside that, without it
//!
//! old: recvfrom > inet_recvmsg > tcp_recvmsg            each arm has another one: they are one frame of two names
//! new: recvfrom > sock_recvmsg > tcp_recvmsg
//! ```
//! Otherwise a kernel that splits or inlines one function would have everything below it vanished and new. Both ask for the same: that
//! most of what the function comes to is in functions that the other arm calls there.

use std::collections::HashSet;

use super::{Frame, Name, add};

/// Functions are looked for so many calls below: a path from system call to network card that was written anew, as that of sendfile
/// was between 6.1 and 7.2, has ten functions of other names before the two come together again.
const REACH: u32 = 16;

/// Share of a frame that must be in functions of the other arm.
const MOST: f64 = 0.5;

/// A frame is one arm's where the other one has no more of it than this share: a function that ends in a call of another one
/// stands beside that.
const HARDLY: f64 = 0.1;

fn is_mostly_in(frame: &Frame, side: usize) -> bool {
    frame.total[1 - side] <= HARDLY * frame.total[side]
}

/// Aligns a frame and all below it that come to `least` and are in both arms.
pub(crate) fn align(frame: &mut Frame, least: f64) {
    for side in [0, 1] {
        lift(frame, side, least);
    }
    pair(frame, least);
    let both = frame.children.iter_mut();
    let both =
        both.filter(|child| least <= child.most() && child.total.iter().all(|total| *total > 0.0));
    both.for_each(|child| align(child, least));
}

/// Children that are one arm's, and that come to `least`.
fn lone(caller: &Frame, side: usize, least: f64) -> Vec<usize> {
    let is_lone = |frame: &Frame| is_mostly_in(frame, side) && least <= frame.total[side];
    (0..caller.children.len())
        .filter(|place| is_lone(&caller.children[*place]))
        .collect()
}

/// Lifts what functions of one arm alone call, where the other arm calls it directly.
fn lift(caller: &mut Frame, side: usize, least: f64) {
    let direct = caller.children.iter();
    let direct = direct.filter(|child| is_mostly_in(child, 1 - side));
    let direct: HashSet<Name> = direct.map(|child| child.name).collect();
    if direct.is_empty() {
        return;
    }
    for place in lone(caller, side, least) {
        let between = &mut caller.children[place];
        if reached(between, &direct, side, REACH) < MOST * between.total[side] {
            continue;
        }
        let via = between.name;
        let mut lifted = Vec::new();
        take(between, &direct, REACH, &mut lifted);
        between.sum_up();
        for mut frame in lifted {
            frame.via[side] = Some(via);
            let mut known = caller.children.iter_mut();
            // A function may call another one of its own name's: that stays with it.
            match known.find(|child| child.name == frame.name) {
                Some(known) => merge(known, frame),
                None => caller.children.push(frame),
            }
        }
    }
}

/// What of a frame is in the outermost functions of these names.
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

/// Takes those functions out of a frame.
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

/// Makes one frame of a function that vanished and a new one that calls mostly the same.
fn pair(caller: &mut Frame, least: f64) {
    let (vanished, new) = (lone(caller, 0, least), lone(caller, 1, least));
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for old in &vanished {
        for place in &new {
            let alike = alike(&caller.children[*old], &caller.children[*place]);
            pairs.extend(alike.map(|common| (common, *old, *place)));
        }
    }
    pairs.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut gone: HashSet<usize> = HashSet::new();
    for (_, old, place) in pairs {
        if gone.contains(&old) || caller.children[place].from.is_some() {
            continue;
        }
        gone.insert(old);
        let before = caller.children[old].clone();
        let after = &mut caller.children[place];
        after.from = Some(before.name);
        merge(after, before);
    }
    let mut place = 0..;
    caller
        .children
        .retain(|_| !place.next().is_some_and(|place| gone.contains(&place)));
}

/// What the two have in common, in instructions of either; `None` where that is not most of both.
fn alike(old: &Frame, new: &Frame) -> Option<f64> {
    let common = [(old, new, 0), (new, old, 1)].map(|(frame, other, side)| {
        let mut names = HashSet::new();
        called(other, REACH, &mut names);
        (reached(frame, &names, side, REACH), frame.total[side])
    });
    let is_most = common.iter().all(|(common, all)| MOST * all <= *common);
    is_most.then(|| common[0].0 + common[1].0)
}

/// Names of what a frame calls, and what that calls.
fn called(frame: &Frame, reach: u32, names: &mut HashSet<Name>) {
    for child in &frame.children {
        names.insert(child.name);
        if reach > 1 {
            called(child, reach - 1, names);
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
        let mut known = into.children.iter_mut();
        match known.find(|one| one.name == child.name) {
            Some(known) => merge(known, child),
            None => into.children.push(child),
        }
    }
}
