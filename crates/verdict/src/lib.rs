//! Pure statistics: design (trial order), compare, decide. No clock, no file, no network.
//!
//! ```text
//! design     the order of the arms in a block, from the seed
//! pair       measured trials side by side, block by block
//! rule       what may be said of the pairs
//!   contrast   a block as one number    score      what it says, however wild     plan   when to look
//!   coin       all that chance decided  boundary   how far chance goes            path   what was crossed when
//! once       figures that others took: one look, less said where the order was not random
//! stability  odd trials of one arm     gates      what makes an arm fail
//! sentinel   blocks that something outside disturbed
//! table      one arm's averages            curves     its figures against the load
//! speedup    arms that differ in CPUs alone
//! differ     which facts are not the same in all arms
//! warnings   what a reader must know before the figures
//! noise      machines with a known truth     campaign   how often the rule is right on them
//! rehearsal  what a plan would find on them
//! beside the rule, for what has no coin or no end, and to compare with:
//!   eprocess  bounds  classic  adjust        trend  scaling  quantile
//! ```
//! The same run gives the same bytes: nothing here asks for the time, the machine or chance.

use record::metric::{MetricSpec, Role};
use record::plan::Plan;
use record::rundir::Run;
use record::verdict::{Comparison, Judgement, Pair, VERSION, Verdict};

use crate::pair::Measured;
use crate::rule::Series;

pub mod adjust;
mod boundary;
pub mod bounds;
pub mod campaign;
pub mod classic;
mod coin;
mod contrast;
mod curves;
mod design;
mod differ;
pub mod eprocess;
mod gates;
pub mod noise;
pub mod once;
mod pair;
mod path;
pub mod plan;
#[cfg(test)]
mod play;
pub mod quantile;
pub mod rehearsal;
pub mod rule;
pub mod scaling;
mod score;
mod sentinel;
mod speedup;
mod stability;
mod table;
pub mod trend;
mod warnings;

/// The order of the arms in one block of one workload: names, first to last. Decided by the plan's
/// seed alone, so it does not depend on how many blocks were looked at, or on what they showed. `redo` counts the
/// times that the block was invalidated.
pub fn order(plan: &Plan, workload: &str, block: u32, redo: u32) -> Vec<String> {
    design::order(plan, workload, block, redo)
}

/// What disturbed the last block of a workload from outside, in words; `trials` are the numbers of its trials.
///
/// Neither arms nor figures are looked at, and no trial that began after those of the block.
pub fn disturbance(run: &Run, workload: &str, trials: &[u32]) -> Option<String> {
    sentinel::disturbance(run, workload, trials)
}

/// All that can be said about a run, finished or not.
///
/// A run without a single measured trial has tables and warnings, but no comparisons: what a
/// workload measures is known only from its figures.
pub fn judge(run: &Run) -> Judgement {
    let measured = Measured::of(run);
    let comparisons = compare(run, &measured);
    let gates = gates::of(run, &measured);
    let chances = run.plan.workloads.len() * (run.plan.arms.len() - 1);
    Judgement {
        version: VERSION,
        rule: rule::NAME.into(),
        setbacks: warnings::setbacks(run, &measured, &gates),
        warnings: warnings::of(run, &measured, &comparisons),
        any_false: (chances as f64 * run.plan.design.error_rate).min(1.0),
        gates,
        tables: table::of(run, &measured),
        curves: curves::of(run, &measured),
        scaling: speedup::of(run, &measured),
        differences: differ::of(run),
        comparisons,
    }
}

/// Whether a workload's primary metric is decided for all arms, or never will be, so that it needs no more blocks.
///
/// Never so before the plan's `min_blocks`, because the rule does not decide before its first look.
pub fn is_decided(judgement: &Judgement, workload: &str) -> bool {
    let primary = |comparison: &&Comparison| {
        comparison.workload == workload && comparison.spec.role == Role::Primary
    };
    let mut primaries = judgement.comparisons.iter().filter(primary).peekable();
    primaries.peek().is_some()
        && primaries.all(|primary| primary.verdict != Verdict::Undecided || primary.spent >= 1.0)
}

fn compare(run: &Run, measured: &Measured<'_>) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for workload in &run.plan.workloads {
        let specs = measured.specs(&workload.id);
        let others = run
            .plan
            .arms
            .iter()
            .filter(|arm| arm.name != run.plan.baseline);
        for arm in others {
            comparisons.extend(compare_arm(
                run,
                measured,
                (&workload.id, &arm.name),
                &specs,
            ));
        }
    }
    comparisons
}

/// All metrics of one arm on one workload, the primary one first.
fn compare_arm(
    run: &Run,
    measured: &Measured<'_>,
    (workload, arm): (&str, &str),
    specs: &[MetricSpec],
) -> Vec<Comparison> {
    let (design, key) = (&run.plan.design, format!("{workload}\n{arm}"));
    let pairs = |spec: &MetricSpec| measured.pairs(workload, (&run.plan.baseline, arm), &spec.name);
    let pairs: Vec<Vec<Pair>> = specs.iter().map(pairs).collect();
    let each = specs.iter().zip(&pairs);
    let series: Vec<Series<'_>> = each
        .map(|(spec, pairs)| Series {
            pairs,
            direction: spec.direction,
        })
        .collect();
    let findings = rule::decide(&series, design, &key);
    let mut comparisons: Vec<Comparison> = specs
        .iter()
        .zip(findings)
        .zip(&pairs)
        .map(|((spec, finding), pairs)| Comparison {
            workload: workload.into(),
            spec: spec.clone(),
            arm: arm.into(),
            verdict: finding.verdict,
            ratio: finding.ratio,
            low: finding.interval.map(|(low, _)| low),
            high: finding.interval.map(|(_, high)| high),
            blocks: pairs.len() as u32,
            decided_at: finding.decided_at,
            noise: finding.noise,
            slot: finding.slot,
            spent: finding.spent,
            more: finding.more,
            stability: stability::of(pairs, spec.direction),
            ripened: Vec::new(),
            reason: finding.reason,
            pairs: pairs.clone(),
        })
        .collect();
    if let (Some(primary), Some(series)) = (comparisons.first_mut(), series.first()) {
        primary.ripened = rule::ripen(*series, design, &key, specs.len() > 1);
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::{Play, THROUGHPUT};

    #[test]
    fn a_planted_gain_is_found_and_stops_the_run() {
        let run = Play::new().blocks(&[
            [100.0, 107.2],
            [100.1, 107.5],
            [99.9, 107.1],
            [100.0, 107.4],
            [100.1, 107.2],
            [100.0, 107.3],
            [99.9, 107.3],
            [100.2, 107.5],
            [99.9, 107.2],
            [100.0, 107.1],
        ]);
        let judgement = judge(&run.run());
        let primary = &judgement.comparisons[0];
        assert_eq!(primary.verdict, Verdict::Better, "{}", primary.reason);
        assert_eq!(
            (primary.blocks, primary.spec.name.as_str()),
            (10, THROUGHPUT)
        );
        assert!(is_decided(&judgement, "web"));
        assert!(!is_decided(&judgement, "no such workload"));
    }

    #[test]
    fn each_workload_and_arm_has_a_chance_of_its_own_to_be_wrong() {
        let any_false = |play: Play| judge(&play.run()).any_false;
        assert!((any_false(Play::new()) - 0.05).abs() < 1e-12);
        let twice = |run: &mut Run| run.plan.workloads.push(run.plan.workloads[0].clone());
        assert!((any_false(Play::new().arm("7.3").with(twice)) - 0.2).abs() < 1e-12);
        let reckless = |run: &mut Run| run.plan.design.error_rate = 0.5;
        assert!((any_false(Play::new().arm("7.3").arm("7.4").with(reckless)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn three_blocks_are_not_enough_for_a_plan_of_four() {
        let run = Play::new().blocks(&[[100.0, 107.2], [100.1, 107.5], [99.9, 107.1]]);
        let judgement = judge(&run.run());
        assert_eq!(judgement.comparisons[0].verdict, Verdict::Undecided);
        assert!(!is_decided(&judgement, "web"));
    }

    #[test]
    fn a_run_with_nothing_measured_is_judged_too() {
        let judgement = judge(&Play::new().run());
        assert!(judgement.comparisons.is_empty());
        assert_eq!(judgement.tables.len(), 2);
        assert!(!is_decided(&judgement, "web"));
        let voids = judge(&Play::new().void(1, "7.2").void(1, "6.1").run());
        assert!(voids.comparisons.is_empty());
        assert_eq!(voids.tables[1].voids.values().sum::<u32>(), 1);
    }

    #[test]
    fn one_arm_alone_gives_a_comparison_without_a_ratio() {
        let judgement = judge(&Play::new().measured(1, "6.1", 100.0).run());
        assert_eq!(judgement.comparisons.len(), 2);
        assert_eq!(judgement.comparisons[0].ratio, None);
        assert_eq!(judgement.comparisons[0].verdict, Verdict::Undecided);
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let run = Play::new()
            .blocks(&[[1.0, 2.0], [1.1, 2.1]])
            .void(3, "7.2")
            .run();
        let bytes = || serde_json::to_vec(&judge(&run)).unwrap();
        assert_eq!(bytes(), bytes());
    }

    #[test]
    fn figures_come_back_from_a_file_to_the_last_bit() {
        let pairs = noise::pairs(noise::REFERENCE, 0.0, 10_000, (1, 0));
        let text = serde_json::to_string(&pairs).unwrap();
        let back: Vec<Pair> = serde_json::from_str(&text).unwrap();
        let bits =
            |pairs: &[Pair]| -> Vec<u64> { pairs.iter().map(|pair| pair.arm.to_bits()).collect() };
        assert_eq!(bits(&back), bits(&pairs));
    }

    #[test]
    fn a_judgement_survives_its_file() {
        let judgement = judge(&Play::new().blocks(&[[1.0, 2.0]]).void(2, "7.2").run());
        let text = serde_json::to_string(&judgement).unwrap();
        assert_eq!(serde_json::from_str::<Judgement>(&text).unwrap(), judgement);
    }
}
