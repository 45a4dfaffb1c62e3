//! Nodes of a fleet, in words.

use base::input::units::{show_change, significant};
use record::node::Node;
use record::verdict::Judgement;
use record::verdict::nodes::NodeMean;

use crate::words::{NONE, counted};

/// Title of the table of nodes.
pub(crate) const TITLE: &str = "What each node measured";

/// The table of each node's means with its head; empty if the run was not of a fleet.
pub(crate) fn rows(judgement: &Judgement) -> Vec<Vec<String>> {
    if judgement.nodes.is_empty() {
        return Vec::new();
    }
    let head = [
        "node", "workload", "arm", "blocks", "metric", "baseline", "arm's", "change",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for summary in &judgement.nodes {
        for mean in &summary.means {
            rows.push(vec![
                about(&summary.node),
                mean.workload.clone(),
                mean.arm.clone(),
                mean.blocks.to_string(),
                format!("{}, {}", mean.metric, mean.unit),
                significant(mean.baseline, 5),
                significant(mean.figure, 5),
                change(mean),
            ]);
        }
    }
    rows
}

fn change(mean: &NodeMean) -> String {
    let ratio = mean.figure / mean.baseline;
    if ratio.is_normal() {
        show_change(ratio)
    } else {
        NONE.into()
    }
}

/// `block 3 ran on n2 (AMD EPYC 7B13, 8 CPUs), begun before and given up on n1`.
pub fn merged(block: u32, node: &Node, given_up_on: &[String]) -> String {
    let ran = format!("block {block} ran on {}", about(node));
    if given_up_on.is_empty() {
        return ran;
    }
    format!(
        "{ran}, begun before and given up on {}",
        given_up_on.join(", ")
    )
}

/// A node and its CPUs.
fn about(node: &Node) -> String {
    let cpus = counted(node.cpus, "CPU");
    match &node.cpu_model {
        Some(model) => format!("{} ({model}, {cpus})", node.name),
        None => format!("{} ({cpus})", node.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_reported_with_its_node_and_those_that_gave_it_up() {
        let node = Node {
            name: "n2".into(),
            hostname: "rack7".into(),
            cpu_model: Some("Xeon 7".into()),
            cpus: 2,
        };
        assert_eq!(merged(3, &node, &[]), "block 3 ran on n2 (Xeon 7, 2 CPUs)");
        assert_eq!(
            merged(3, &node, &["n1".into()]),
            "block 3 ran on n2 (Xeon 7, 2 CPUs), begun before and given up on n1"
        );
    }
}
