//! Nodes of a fleet: the means of each node, and the verdict on a claim about machines in general.
//!
//! ```text
//! claim "nodes"      about these nodes: the rule for runs, block by block; the order in each block was random on every node
//! claim "machines"   about machines like these: one figure per node, the mean of its blocks; the test flips the signs of nodes
//! ```
//! All blocks of one node share that node's influence on an arm, so together they are one observation of machines in general
//! (pseudoreplication, Hurlbert 1984). The test assumes that a node is as likely to favour an arm as to hinder it.
//! It analyses once, at the run's last block. With n nodes no p-value is below 2^-(n-1).

use std::collections::BTreeMap;

use plan::{Claim, Design};
use record::metric::Role;
use record::node::Node;
use record::rundir::Run;
use record::verdict::nodes::{NodeMean, NodeSummary};
use record::verdict::reason::Reason;
use record::verdict::{Comparison, Pair, Verdict};

use crate::topics::metrics::measured::Measured;
use crate::topics::night::p_value;
use stats::average::less;
use stats::contrast::{Contrasts, Kind};
use stats::fixed_sample::{SEARCH, is_refuted};
use stats::interim::{self, fewest_blocks};
use stats::inversion::interval;
use stats::randomization::SignFlips;
use stats::score::{hodges_lehmann, scale};

/// The means of each node, by its name; empty if the run was not of a fleet.
pub(crate) fn of(run: &Run, comparisons: &[Comparison]) -> Vec<NodeSummary> {
    let nodes = run.nodes();
    let mut summaries = Vec::new();
    for node in distinct(&nodes) {
        let mut means = Vec::new();
        for comparison in comparisons {
            if comparison.spec.role != Role::Primary {
                continue;
            }
            let pairs = pairs_of(node, comparison, &nodes);
            means.extend(mean_pair(&pairs).map(|mean| NodeMean {
                workload: comparison.workload.clone(),
                metric: comparison.spec.name.clone(),
                unit: comparison.spec.unit.clone(),
                arm: comparison.arm.clone(),
                blocks: pairs.len() as u32,
                baseline: mean.baseline,
                figure: mean.arm,
            }));
        }
        let blocks = nodes.values().filter(|other| other.name == node.name);
        summaries.push(NodeSummary {
            node: node.clone(),
            blocks: blocks.count() as u32,
            means,
        });
    }
    summaries
}

/// Each machine once, also if jobs had different numbers of its CPUs.
fn distinct<'n>(nodes: &BTreeMap<u32, &'n Node>) -> Vec<&'n Node> {
    let mut distinct: Vec<&Node> = nodes.values().copied().collect();
    distinct.sort();
    distinct.dedup_by(|a, b| a.name == b.name);
    distinct
}

/// The blocks of a comparison that ran on a node.
fn pairs_of(node: &Node, comparison: &Comparison, nodes: &BTreeMap<u32, &Node>) -> Vec<Pair> {
    let ran_on_node = |pair: &&Pair| {
        let other = nodes.get(&pair.block);
        other.is_some_and(|other| other.name == node.name)
    };
    let pairs = comparison.pairs.iter().filter(ran_on_node);
    pairs.cloned().collect()
}

/// The mean of some pairs, geometric if all figures are positive; `None` without pairs.
fn mean_pair(pairs: &[Pair]) -> Option<Pair> {
    let first = pairs.first()?;
    let count = pairs.len() as f64;
    let is_ratio = pairs
        .iter()
        .all(|pair| pair.baseline > 0.0 && pair.arm > 0.0);
    let mean = |figure: fn(&Pair) -> f64| {
        if is_ratio {
            (pairs.iter().map(|pair| figure(pair).ln()).sum::<f64>() / count).exp()
        } else {
            pairs.iter().map(figure).sum::<f64>() / count
        }
    };
    Some(Pair {
        baseline: mean(|pair| pair.baseline),
        arm: mean(|pair| pair.arm),
        ..first.clone()
    })
}

/// Replaces verdicts about the nodes by verdicts about machines in general, if the plan claims that.
pub(crate) fn claim(run: &Run, measured: &Measured<'_>, comparisons: &mut [Comparison]) {
    match run.plan.claim {
        Claim::Nodes => return,
        Claim::Machines => {}
    }
    let (design, nodes) = (&run.plan.design, run.nodes());
    for comparison in comparisons {
        let specs = measured.specs(&comparison.workload);
        let secondary = specs.iter().filter(|spec| spec.role != Role::Primary);
        // As in the rule for runs: half for the primary metric, and half for all others.
        let share = match (comparison.spec.role, secondary.count()) {
            (Role::Primary, 0) => 1.0,
            (Role::Primary, _) => 0.5,
            (_, count) => 0.5 / count.max(1) as f64,
        };
        decide(comparison, &nodes, Terms::new(design, share));
    }
}

#[derive(Clone, Copy)]
struct Terms {
    error_rate: f64,
    equivalence_error_rate: f64,
    margin: f64,
    /// The only analysis is after this block.
    last: u32,
    seed: u64,
}

impl Terms {
    /// `share` is the metric's share of the plan's error rate.
    fn new(design: &Design, share: f64) -> Self {
        Self {
            error_rate: design.error_rate * share,
            equivalence_error_rate: interim::equivalence_error_rate(design),
            margin: design.margin,
            last: design.most_blocks(),
            seed: design.seed,
        }
    }
}

fn decide(comparison: &mut Comparison, nodes: &BTreeMap<u32, &Node>, terms: Terms) {
    let pairs = node_pairs(comparison, nodes);
    let contrasts = Contrasts::of(&pairs, comparison.spec.direction, terms.margin);
    comparison.verdict = Verdict::Undecided;
    comparison.decided_at = None;
    comparison.more = None;
    (comparison.low, comparison.high, comparison.confidence) = (None, None, None);
    let last_block = comparison.pairs.last().map_or(0, |pair| pair.block);
    let Some(contrasts) = contrasts else {
        return;
    };
    let typical = hodges_lehmann(&contrasts.values);
    if contrasts.kind == Kind::Ratio {
        comparison.ratio = Some(contrasts.shown(typical));
    }
    if last_block < terms.last {
        comparison.reason = Reason::BeforeFirstTest {
            first_test: terms.last,
            blocks: last_block,
        };
        return;
    }
    let count = pairs.len();
    let least = fewest_blocks(terms.error_rate);
    if count < least {
        comparison.reason = Reason::TooFewNodes {
            nodes: count as u32,
            least: least as u32,
        };
        return;
    }
    comparison.spent = 1.0;
    let tested = test(&contrasts, typical, terms);
    comparison.verdict = tested.verdict;
    comparison.reason = tested.reason;
    if contrasts.kind == Kind::Ratio
        && let Some((low, high)) = tested.interval
    {
        let (low, high) = contrasts.shown_interval(low, high);
        (comparison.low, comparison.high) = (Some(low), Some(high));
        comparison.confidence = Some(1.0 - tested.error_rate);
    }
    comparison.decided_at = (tested.verdict != Verdict::Undecided).then_some(last_block);
}

/// The p-value of one side of a verdict about machines in general: half of the smallest level at which the test rejects.
pub(crate) fn p_value(run: &Run, comparison: &Comparison, has_secondary: bool) -> f64 {
    let design = &run.plan.design;
    let pairs = node_pairs(comparison, &run.nodes());
    let Some(contrasts) = Contrasts::of(&pairs, comparison.spec.direction, design.margin) else {
        return 1.0;
    };
    let flips = flips(pairs.len(), design.seed, design.error_rate);
    let share = if has_secondary { 0.5 } else { 1.0 };
    let levels = p_value::levels(share * design.error_rate);
    p_value::smallest(&levels, |index| {
        is_refuted(&contrasts.values, 0.0, &flips, levels[index])
    })
}

/// The mean pair of each node that has blocks.
fn node_pairs(comparison: &Comparison, nodes: &BTreeMap<u32, &Node>) -> Vec<Pair> {
    let distinct = distinct(nodes).into_iter();
    distinct
        .filter_map(|node| mean_pair(&pairs_of(node, comparison, nodes)))
        .collect()
}

fn flips(nodes: usize, seed: u64, error_rate: f64) -> SignFlips {
    SignFlips::draw(&format!("nodes\n{seed}"), nodes, error_rate)
}

/// The result of a test of nodes' means.
struct Tested {
    verdict: Verdict,
    reason: Reason,
    /// The interval that belongs to the verdict, as contrasts.
    interval: Option<(f64, f64)>,
    /// The error rate of the interval.
    error_rate: f64,
}

fn test(contrasts: &Contrasts, typical: f64, terms: Terms) -> Tested {
    let (values, nodes) = (&contrasts.values, contrasts.values.len());
    let flips = flips(nodes, terms.seed, terms.error_rate);
    let refuted = |shift: f64, rate: f64| is_refuted(values, shift, &flips, rate);
    let residuals = less(values, typical);
    let step = scale(&residuals) / (nodes as f64).sqrt();
    let ends = |rate: f64| interval(typical, step, SEARCH, |shift| refuted(shift, rate));
    let count = nodes as u32;
    if refuted(0.0, terms.error_rate) {
        let verdict = if typical > 0.0 {
            Verdict::Better
        } else {
            Verdict::Worse
        };
        return Tested {
            verdict,
            reason: Reason::SignificantOverNodes { nodes: count },
            interval: ends(terms.error_rate),
            error_rate: terms.error_rate,
        };
    }
    let (margin, rate) = (contrasts.margin, 2.0 * terms.equivalence_error_rate);
    if typical.abs() <= margin && refuted(margin, rate) && refuted(-margin, rate) {
        return Tested {
            verdict: Verdict::Equivalent,
            reason: Reason::WithinMarginOverNodes {
                nodes: count,
                margin: terms.margin,
            },
            interval: ends(rate),
            error_rate: rate,
        };
    }
    Tested {
        verdict: Verdict::Undecided,
        reason: Reason::InconclusiveOverNodes { nodes: count },
        interval: ends(terms.error_rate),
        error_rate: terms.error_rate,
    }
}

#[cfg(test)]
mod tests {
    use record::fixtures::builder::RunBuilder;
    use record::journal::{Entry, Event};
    use record::verdict::Verdict;

    use super::*;
    use crate::{is_decided, judge};

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            hostname: name.into(),
            cpu_model: None,
            cpus: 2,
        }
    }

    /// Two blocks on each node; `effects` has the arm's ratio on each.
    fn run(effects: &[f64], claim: Claim) -> Run {
        let figures = |effect: &f64| [[100.0, 100.0 * effect], [101.0, 101.1 * effect]];
        let blocks: Vec<[f64; 2]> = effects.iter().flat_map(figures).collect();
        let mut run = RunBuilder::new().blocks(&blocks).run();
        run.plan.claim = claim;
        run.plan.design.max_blocks = blocks.len() as u32;
        for block in 1..=blocks.len() as u32 {
            run.entries.push(Entry {
                at: String::new(),
                event: Event::Merged {
                    block,
                    // Jobs may have different numbers of a node's CPUs.
                    node: Node {
                        cpus: 1 + block % 2,
                        ..node(&format!("n{:02}", (block - 1) / 2))
                    },
                    given_up_on: Vec::new(),
                },
            });
        }
        run
    }

    fn primary(run: &Run) -> Comparison {
        judge(run).comparisons[0].clone()
    }

    #[test]
    fn each_node_has_its_means() {
        let judgement = judge(&run(&[1.10, 1.20], Claim::Nodes));
        assert_eq!(judgement.nodes.len(), 2);
        let ratios: Vec<f64> = judgement
            .nodes
            .iter()
            .map(|node| node.means[0].figure / node.means[0].baseline)
            .collect();
        assert!((ratios[0] - 1.1005).abs() < 1e-3 && (ratios[1] - 1.2006).abs() < 1e-3);
        assert_eq!(
            (
                judgement.nodes[0].blocks,
                judgement.nodes[0].means[0].blocks
            ),
            (2, 2)
        );
    }

    #[test]
    fn gains_on_four_nodes_of_seven_show_nothing_about_machines() {
        let mixed = [1.10, 0.90, 1.12, 0.89, 1.11, 0.92, 1.09];
        let primary = primary(&run(&mixed, Claim::Machines));
        assert_eq!(primary.verdict, Verdict::Undecided);
        assert_eq!(primary.reason, Reason::InconclusiveOverNodes { nodes: 7 });
        let (low, high) = (primary.low.unwrap(), primary.high.unwrap());
        assert!(low < 1.0 && 1.0 < high, "{low} {high}");
    }

    #[test]
    fn a_gain_on_all_nodes_is_significant_but_not_on_two_nodes() {
        let alike = [1.10, 1.11, 1.12, 1.105, 1.115, 1.09, 1.13];
        let better = primary(&run(&alike, Claim::Machines));
        assert_eq!(better.verdict, Verdict::Better, "{:?}", better.reason);
        assert!(better.low.unwrap() > 1.05 && better.high.unwrap() < 1.15);
        let worse = alike.map(|ratio| 1.0 / ratio);
        assert_eq!(
            primary(&run(&worse, Claim::Machines)).verdict,
            Verdict::Worse
        );
        let same = [1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0002, 0.9998, 1.0003];
        let equal = primary(&run(&same, Claim::Machines));
        assert_eq!(equal.verdict, Verdict::Equivalent, "{:?}", equal.reason);
        let few = primary(&run(&alike[..2], Claim::Machines));
        assert_eq!(few.verdict, Verdict::Undecided);
        assert!(matches!(few.reason, Reason::TooFewNodes { nodes: 2, .. }));
    }

    #[test]
    fn there_is_no_analysis_before_the_last_block() {
        let mut run = run(&[1.10; 8], Claim::Machines);
        run.plan.design.max_blocks = 17;
        let judgement = judge(&run);
        assert!(!is_decided(&judgement.comparisons, "web"));
        assert!(matches!(
            judgement.comparisons[0].reason,
            Reason::BeforeFirstTest {
                first_test: 17,
                blocks: 16
            }
        ));
    }
}
