//! Texts around the tree of call paths and at its nodes.

use record::verdict::call_tree::CallNode;
use record::verdict::mechanism::Presence;
use record::verdict::why::Why;
use serde_json::{Value, json};

use super::{change, per_unit, thousands};

pub(crate) const TITLE: &str = "Call paths of both arms";

/// The unit of the tree's figures.
fn unit(why: &Why) -> &'static str {
    match why.sampling {
        None => "instructions",
        Some(_) => "nanoseconds of CPU time",
    }
}

/// The title of the table that replaces the tree on paper.
pub(crate) fn table_title(why: &Why) -> String {
    format!(
        "Paths whose last function differs most by itself, in {} {}. Vanished, new: no other path of the other arm executes \
         the function either.",
        unit(why),
        per_unit(why.per)
    )
}

/// Instructions for reading the tree.
pub(crate) fn reading(why: &Why) -> String {
    format!(
        "Each frame is a function on one path, below the one that calls it. Its upper bar is what the path costs {} in {}, \
         its lower bar in {}, in {}, with all that it calls. What comes to less than {} in both arms is one frame of its \
         caller's. A click or Enter zooms, arrow keys walk.",
        per_unit(why.per),
        why.baseline,
        why.arm,
        unit(why),
        thousands(why.tree.least)
    )
}

/// An entry of the legend, like the next three.
pub(crate) fn less(why: &Why) -> String {
    format!("costs less in {}", why.arm)
}

pub(crate) fn more(why: &Why) -> String {
    format!("costs more in {}", why.arm)
}

pub(crate) fn vanished(why: &Why) -> String {
    format!("path in {} alone", why.baseline)
}

pub(crate) fn new(why: &Why) -> String {
    format!("path in {} alone", why.arm)
}

/// Texts for the script; `{}` is a number.
pub(crate) fn labels(why: &Why) -> Value {
    json!({
        "whole": "all",
        "folded": "{} smaller",
        "total": "with all that it calls",
        "own": "by itself",
        "calls": format!("calls {}", per_unit(why.per)),
        "difference": "difference",
        "change": "change",
        "search": "search functions",
        "reset": "reset",
        "found": "functions that match: {}; frames here: {}",
        "everywhere": "by themselves, all paths",
        "here": "these frames, with all that they call",
    })
}

/// Remarks on a node: whether one arm lacks it, its other name, and calls through another function.
pub(crate) fn notes(why: &Why, node: &CallNode) -> Vec<String> {
    let arms = [&why.baseline, &why.arm];
    let mut notes = Vec::new();
    let alone = |has: &str, lacks: &str| {
        if node.elsewhere {
            format!("on this path in {has} alone; {lacks} executes the function on others")
        } else {
            format!("in {has} alone: {lacks} executes no function of this name")
        }
    };
    match &node.presence {
        Presence::Both => {}
        Presence::Vanished => notes.push(alone(&why.baseline, &why.arm)),
        Presence::New => notes.push(alone(&why.arm, &why.baseline)),
        Presence::Renamed { from } => {
            notes.push(format!("{} has {from} in its place", why.baseline));
        }
    }
    for (via, arm) in node.via.iter().zip(arms) {
        if let Some(via) = via {
            notes.push(format!("{arm} calls it through {via}, which stands beside"));
        }
    }
    notes
}

/// A table with its head: the paths whose last functions differ most by themselves; empty if there are no paths.
pub(crate) fn largest(why: &Why, count: usize) -> Vec<Vec<String>> {
    let nodes = &why.tree.nodes;
    let mut paths: Vec<&CallNode> = nodes
        .iter()
        .filter(|node| node.folded == 0 && node.parent.is_some())
        .collect();
    if paths.is_empty() {
        return Vec::new();
    }
    let size = |node: &CallNode| (node.own[1] - node.own[0]).abs();
    paths.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let head = [
        "function",
        "called by",
        &why.baseline,
        &why.arm,
        "difference",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(paths.into_iter().take(count).map(|node| {
        let [baseline, arm] = node.own;
        let alone = |arm: &str| format!("{} (this path in {arm} alone)", node.name);
        let name = match &node.presence {
            Presence::Both => node.name.clone(),
            // Only the path vanished: the function is on other paths.
            Presence::Vanished if node.elsewhere => alone(&why.baseline),
            Presence::New if node.elsewhere => alone(&why.arm),
            Presence::Vanished => format!("{} (vanished)", node.name),
            Presence::New => format!("{} (new)", node.name),
            Presence::Renamed { from } => format!("{} (was {from})", node.name),
        };
        vec![
            name,
            callers(nodes, node),
            thousands(baseline),
            thousands(arm),
            change(arm - baseline),
        ]
    }));
    rows
}

/// Most callers that are named.
const CALLERS: usize = 4;

fn callers(nodes: &[CallNode], node: &CallNode) -> String {
    let caller = |node: &CallNode| node.parent.and_then(|parent| nodes.get(parent as usize));
    let all = std::iter::successors(caller(node), |node| caller(node));
    let mut names: Vec<&str> = all.map(|node| node.name.as_str()).collect();
    // The root has no name.
    names.pop();
    if names.len() > CALLERS {
        names.truncate(CALLERS);
        names.push("...");
    }
    names.join(" < ")
}
