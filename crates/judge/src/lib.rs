//! What a run shows: findings by topic, and a report of them.
//!
//! ```text
//! topics    a folder each: `find` computes, `tell` puts into words
//! words     numbers and words that several topics share
//! report    all topics of a run in order: terminal, Markdown, page, JSON
//! ```
//! The same run gives the same bytes: nothing here reads a clock, a file or the network, and what is random comes from the plan's seed.

use plan::{Claim, Plan};
use record::metric::{MetricSpec, Role};
use record::rundir::Run;
use record::verdict::fairness::withholding;
use record::verdict::finding::Disturbance;
use record::verdict::{Comparison, Conclusion, Judgement, Pair, VERSION, Verdict};

use stats::rule::{RuleResult, Series};

use crate::topics::metrics::measured::Measured;

pub mod report;
#[cfg(test)]
mod tests;
pub mod topics;
pub mod words;

/// The order of the arms in one block of one workload: names, first to last. Decided by the plan's
/// seed alone, so it does not depend on how many blocks were looked at, or on what they showed. A block that is run again has the same.
pub fn order(plan: &Plan, workload: &str, block: u32) -> Vec<String> {
    stats::design::order(plan, workload, block)
}

/// What disturbed the last block of a workload from outside; `trials` are the numbers of its trials.
///
/// Neither arms nor figures are looked at, and no trial that began after those of the block.
pub fn disturbance(run: &Run, workload: &str, trials: &[u32]) -> Option<Disturbance> {
    crate::topics::disturbances::find::disturbance(run, workload, trials)
}

/// All that can be said about a run, finished or not.
///
/// A run without a single measured trial has averages and warnings, but no comparisons: what a
/// workload measures is known only from its figures.
pub fn judge(run: &Run) -> Judgement {
    let mut judgement = interim(run);
    judgement.robustness = match run.plan.claim {
        Claim::Nodes => crate::topics::robustness::find::of(run, &judgement),
        // It asks what the rule for blocks would say, which did not decide.
        Claim::Machines => Vec::new(),
    };
    judgement
}

/// The same without what headlines hang on, which nobody needs who watches a run that goes on.
pub fn interim(run: &Run) -> Judgement {
    let mut judgement = summary(run);
    add_estimate_histories(run, &mut judgement.comparisons);
    judgement
}

/// The same without the estimate after each block too, which costs as much as all else. A run that decides whether it goes on needs less
/// (`primaries`).
pub fn summary(run: &Run) -> Judgement {
    let measured = Measured::of(run);
    let mut comparisons = compare(run, &measured, compare_arm);
    crate::topics::nodes::find::claim(run, &measured, &mut comparisons);
    crate::topics::prices::withdraw_times(&run.plan.baseline, &measured, &mut comparisons);
    let by_load = crate::topics::loads::find::of(run, &measured);
    let mut differences = crate::topics::differences::find::of(run);
    let weighed = crate::topics::differences::weigh::weigh(run, &mut differences);
    let soaks = crate::topics::soak::find::of(run, &comparisons);
    let mut curves = crate::topics::loads::curves::of(run, &measured);
    curves.extend(crate::topics::soak::find::curves(&soaks));
    let mut judgement = Judgement {
        version: VERSION,
        rule: stats::rule::NAME.into(),
        findings: crate::topics::findings::find::of(run, &measured, &comparisons, &weighed),
        headlines: crate::topics::headline::find::of(run, &measured, &comparisons, &by_load),
        any_false: (run.plan.comparisons() as f64 * stats::interim::error_rate(&run.plan.design))
            .min(1.0),
        defects: crate::topics::defects::find::of(run),
        arm_summaries: crate::topics::metrics::arm_summary::of(run, &measured),
        curves,
        by_load,
        robustness: Vec::new(),
        host_speed: crate::topics::host::find::speed(run),
        one_sided: crate::topics::host::find::one_sided(run, &comparisons),
        a_a: crate::topics::host::a_a::of(run),
        soaks,
        nodes: crate::topics::nodes::find::of(run, &comparisons),
        scaling: crate::topics::scaling::find::of(run, &measured),
        planned: crate::topics::disturbances::planned::of(run, &measured),
        differences,
        weighed,
        comparisons,
        fairness: Vec::new(),
    };
    crate::topics::prices::judge(run, &measured, &mut judgement.headlines);
    judgement.fairness = crate::topics::fairness::of_run(run, &judgement, &run.accepted);
    withhold(&mut judgement, &run.plan.baseline);
    judgement
}

/// The comparisons on primary metrics, as `summary` makes them: what decides whether a run goes on. Above `stats::rule::MOST_WITH_INTERVAL` blocks
/// they are without interval.
pub fn primaries(run: &Run) -> Vec<Comparison> {
    let measured = Measured::of(run);
    let mut comparisons = compare(run, &measured, compare_primary);
    crate::topics::nodes::find::claim(run, &measured, &mut comparisons);
    comparisons
}

/// An unfair comparison has no headline; an arm that failed has failed all the same.
fn withhold(judgement: &mut Judgement, baseline: &str) {
    for headline in &mut judgement.headlines {
        let checks = withholding(
            &judgement.fairness,
            &headline.workload,
            &headline.arm,
            baseline,
        );
        let failed_checks: Vec<String> = checks.iter().map(|check| check.id.clone()).collect();
        if !failed_checks.is_empty() && !matches!(headline.conclusion, Conclusion::Failed(_)) {
            headline.conclusion = Conclusion::Withheld { failed_checks };
        }
    }
}

/// Whether a workload's primary metric is decided for all arms, so that it needs no more blocks.
///
/// Never so before the plan's `min_blocks`, because the rule does not decide before its first interim analysis.
pub fn is_decided(comparisons: &[Comparison], workload: &str) -> bool {
    let primary = |comparison: &&Comparison| {
        comparison.workload == workload && comparison.spec.role == Role::Primary
    };
    let mut primaries = comparisons.iter().filter(primary).peekable();
    primaries.peek().is_some() && primaries.all(|primary| primary.verdict != Verdict::Undecided)
}

/// Compares some metrics of one arm on one workload, whose metrics these are.
type CompareArm = fn(&Run, &Measured<'_>, &str, &str, &[MetricSpec]) -> Vec<Comparison>;

fn compare(run: &Run, measured: &Measured<'_>, compare_arm: CompareArm) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for workload in &run.plan.workloads {
        let specs = measured.specs(&workload.id);
        let others = run
            .plan
            .arms
            .iter()
            .filter(|arm| arm.name != run.plan.baseline);
        for arm in others {
            comparisons.extend(compare_arm(run, measured, &workload.id, &arm.name, &specs));
        }
    }
    comparisons
}

/// All metrics of one arm on one workload, the primary one first.
fn compare_arm(
    run: &Run,
    measured: &Measured<'_>,
    workload: &str,
    arm: &str,
    specs: &[MetricSpec],
) -> Vec<Comparison> {
    let (design, key) = (&run.plan.design, format!("{workload}\n{arm}"));
    let pairs = |spec: &MetricSpec| measured.pairs(workload, &run.plan.baseline, arm, &spec.name);
    let pairs: Vec<Vec<Pair>> = specs.iter().map(pairs).collect();
    let each = specs.iter().zip(&pairs);
    let series: Vec<Series<'_>> = each
        .map(|(spec, pairs)| Series {
            pairs,
            direction: spec.direction,
        })
        .collect();
    let findings = stats::rule::decide(&series, design, &key);
    let each = specs.iter().zip(findings).zip(&pairs);
    each.map(|((spec, finding), pairs)| comparison(workload, arm, spec, &finding, pairs.clone()))
        .collect()
}

/// The primary metric of one arm, at an interim analysis.
fn compare_primary(
    run: &Run,
    measured: &Measured<'_>,
    workload: &str,
    arm: &str,
    specs: &[MetricSpec],
) -> Vec<Comparison> {
    let Some(spec) = specs.first().filter(|spec| spec.role == Role::Primary) else {
        return Vec::new();
    };
    let pairs = measured.pairs(workload, &run.plan.baseline, arm, &spec.name);
    let series = Series {
        pairs: &pairs,
        direction: spec.direction,
    };
    let (key, has_secondary) = (format!("{workload}\n{arm}"), specs.len() > 1);
    let finding = stats::rule::decide_interim(series, &run.plan.design, &key, has_secondary);
    vec![comparison(workload, arm, spec, &finding, pairs)]
}

/// What was found of one metric of one arm.
fn comparison(
    workload: &str,
    arm: &str,
    spec: &MetricSpec,
    finding: &RuleResult,
    pairs: Vec<Pair>,
) -> Comparison {
    Comparison {
        workload: workload.into(),
        spec: spec.clone(),
        arm: arm.into(),
        verdict: finding.verdict,
        ratio: finding.ratio,
        low: finding.shown_interval().map(|(low, _)| low),
        high: finding.shown_interval().map(|(_, high)| high),
        difference: finding.difference,
        range: range(&pairs),
        blocks: pairs.len() as u32,
        decided_at: finding.decided_at,
        noise: finding.noise,
        order_effect: finding.order_effect,
        spent: finding.spent,
        more: finding.more,
        outliers: stats::outliers::of(&pairs, spec.direction),
        estimate_history: Vec::new(),
        confidence: finding.confidence,
        reason: finding.reason,
        pairs,
    }
}

/// The estimate of each arm's first metric after each block, as a run that was judged in between would have had it.
fn add_estimate_histories(run: &Run, comparisons: &mut [Comparison]) {
    match run.plan.claim {
        Claim::Nodes => {}
        // One analysis, after the last block.
        Claim::Machines => return,
    }
    let is_same = |one: &Comparison, other: &Comparison| {
        one.workload == other.workload && one.arm == other.arm
    };
    for metrics in comparisons.chunk_by_mut(is_same) {
        let has_secondary = metrics.len() > 1;
        if let Some(primary) = metrics.first_mut() {
            let key = format!("{}\n{}", primary.workload, primary.arm);
            let series = Series {
                pairs: &primary.pairs,
                direction: primary.spec.direction,
            };
            primary.estimate_history =
                stats::rule::estimate_history(series, &run.plan.design, &key, has_secondary);
        }
    }
}

/// The lowest and the highest ratio of a block; `None` where some block has none.
fn range(pairs: &[Pair]) -> Option<(f64, f64)> {
    let ratio = |pair: &Pair| Some(pair.arm / pair.baseline).filter(|ratio| ratio.is_normal());
    let ratios: Option<Vec<f64>> = pairs.iter().map(ratio).collect();
    let ratios = ratios?;
    let low = ratios.iter().copied().reduce(f64::min)?;
    let high = ratios.iter().copied().reduce(f64::max)?;
    Some((low, high))
}
