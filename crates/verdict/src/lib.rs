//! Pure statistics: design (trial order), compare, decide. No clock, no file, no network.
//!
//! ```text
//! design            the order of the arms in a block, from the seed
//! pair              measured trials side by side, block by block
//! rule              what may be said of the pairs
//!   contrast          a block as one number
//!   score             what it says, however wild
//!   looks             when to look, and how much error to spend there
//!   randomization     the sign flips that give the null distribution
//!   boundary          how large a statistic may grow under it
//!   sequential_test   which hypotheses are rejected, and when
//!   inversion         the confidence interval of a test
//! fixed_sample      figures that others took: one look, less said where the order was not random
//! apart             two runs of the same arms, not interleaved
//! outliers          trials far worse than those around them
//! arm_defects       what kernels and services told, and what of it is new in an arm
//! gates             what makes an arm fail
//! headline          what all metrics of an arm come to, in one word
//! night             what several plans come to together, and how metrics change over nights and versions
//!   p_value           the smallest level at which a verdict would have been reached
//!   multiplicity      several p-values at a time
//!   change_points     where a series of single figures changes
//! robustness        what that hangs on: a block, the margin, the choice of the metric
//! margins           for which margins it would be the same
//! limits            whether an arm's figures were set by clients, network or server
//! disturbance       blocks that something outside disturbed
//! planned           what the plan had done to the systems on purpose
//! arm_summary       one arm's averages
//! curves            its figures against the load
//! by_load           at which loads an arm is better
//! cpu_scaling, usl  arms that differ in CPUs alone; the universal scalability law
//! config_diff       which facts are not the same in all arms
//! weighed           what of them matters, and what can be pinned
//! nodes             what each node of a fleet measured, and claims about machines in general
//! models            whether verdicts stand on another emulated CPU
//! explain           why an arm differs, from accounts of what trials executed and waited for
//! mechanism         what a function of a kernel is for
//! warnings          what a reader must know before the figures
//! bisect            between which two versions of a line a metric changed; all steps of a line
//! stats             means and medians
//! noise_models      simulated machines with a known truth
//! calibration       how often the rule is right on them
//! power             what a plan would find on them
//! host              what no arm can move, and whether it moved with an arm
//! a_a               what the machine's A/A runs say of it
//! eprocess          whether A/A runs of a machine favour a side
//! soak              what long trials say, when they are too few for a verdict on speed
//!   service           changes, outages and recovery of service over time
//!   growth            which counters of a system grow, and in which arms
//!   reliability       how rare failures are at the most
//!   batches           a long series as a few averages, and how much these hang on each other
//! ```
//! The same run gives the same bytes: nothing here asks for the time or the machine, and what is random comes from the seed.

use plan::{Claim, Plan};
use record::metric::{MetricSpec, Role};
use record::rundir::Run;
use record::verdict::fairness::withholding;
use record::verdict::warning::Disturbance;
use record::verdict::{Comparison, Conclusion, Judgement, Pair, VERSION, Verdict};

use crate::pair::Measured;
use crate::rule::{Finding, Series};

mod a_a;
pub mod apart;
mod arm_defects;
mod arm_summary;
mod batches;
pub mod bisect;
mod boundary;
mod by_load;
pub mod calibration;
mod change_points;
mod config_diff;
mod contrast;
#[cfg(test)]
mod counts;
mod cpu_scaling;
mod curves;
mod design;
mod disturbance;
pub mod eprocess;
pub mod explain;
pub mod fixed_sample;
mod gates;
mod growth;
mod headline;
mod host;
mod inversion;
mod limits;
pub mod looks;
mod margins;
pub mod mechanism;
pub mod models;
mod multiplicity;
pub mod night;
mod nodes;
pub mod noise_models;
mod outliers;
mod p_value;
mod pair;
mod planned;
pub mod power;
mod prices;
mod randomization;
mod reliability;
mod robustness;
pub mod rule;
mod score;
mod sequential_test;
pub mod service;
mod soak;
mod stats;
pub mod usl;
mod warnings;
mod weighed;

/// The order of the arms in one block of one workload: names, first to last. Decided by the plan's
/// seed alone, so it does not depend on how many blocks were looked at, or on what they showed. A block that is run again has the same.
pub fn order(plan: &Plan, workload: &str, block: u32) -> Vec<String> {
    design::order(plan, workload, block)
}

/// What disturbed the last block of a workload from outside; `trials` are the numbers of its trials.
///
/// Neither arms nor figures are looked at, and no trial that began after those of the block.
pub fn disturbance(run: &Run, workload: &str, trials: &[u32]) -> Option<Disturbance> {
    disturbance::disturbance(run, workload, trials)
}

/// All that can be said about a run, finished or not.
///
/// A run without a single measured trial has averages and warnings, but no comparisons: what a
/// workload measures is known only from its figures.
pub fn judge(run: &Run) -> Judgement {
    let mut judgement = look(run);
    judgement.robustness = match run.plan.claim {
        Claim::Nodes => robustness::of(run, &judgement),
        // It asks what the rule for blocks would say, which did not decide.
        Claim::Machines => Vec::new(),
    };
    judgement
}

/// The same without what headlines hang on, which nobody needs who watches a run that goes on.
pub fn look(run: &Run) -> Judgement {
    let mut judgement = quick_look(run);
    add_estimate_histories(run, &mut judgement.comparisons);
    judgement
}

/// The same without the estimate after each block too, which costs as much as all else. A run that decides whether it goes on needs less
/// (`primaries`).
pub fn quick_look(run: &Run) -> Judgement {
    let measured = Measured::of(run);
    let mut comparisons = compare(run, &measured, compare_arm);
    nodes::claim(run, &measured, &mut comparisons);
    prices::withdraw_times(&run.plan.baseline, &measured, &mut comparisons);
    let by_load = by_load::of(run, &measured);
    let gates = gates::of(run, &measured);
    let mut differences = config_diff::of(run);
    let weighed = weighed::weigh(run, &mut differences);
    let soaks = soak::of(run, &comparisons);
    let mut curves = curves::of(run, &measured);
    curves.extend(soak::curves(&soaks));
    let mut judgement = Judgement {
        version: VERSION,
        rule: rule::NAME.into(),
        setbacks: warnings::setbacks(run, &measured),
        warnings: warnings::of(run, &measured, &comparisons, &weighed),
        headlines: headline::of(run, &measured, &comparisons, &by_load),
        any_false: (run.plan.comparisons() as f64 * looks::error_rate(&run.plan.design)).min(1.0),
        defects: arm_defects::of(run),
        gates,
        arm_summaries: arm_summary::of(run, &measured),
        curves,
        by_load,
        robustness: Vec::new(),
        host_speed: host::speed(run),
        one_sided: host::one_sided(run, &comparisons),
        a_a: a_a::of(run),
        soaks,
        nodes: nodes::of(run, &comparisons),
        scaling: cpu_scaling::of(run, &measured),
        planned: planned::of(run, &measured),
        differences,
        weighed,
        comparisons,
        fairness: Vec::new(),
    };
    prices::judge(run, &measured, &mut judgement.headlines);
    judgement.fairness = fairness::of_run(run, &judgement, &run.accepted);
    withhold(&mut judgement, &run.plan.baseline);
    judgement
}

/// The comparisons on primary metrics, as `quick_look` makes them: what decides whether a run goes on. Above `rule::MOST_WITH_INTERVAL` blocks
/// they are without interval.
pub fn primaries(run: &Run) -> Vec<Comparison> {
    let measured = Measured::of(run);
    let mut comparisons = compare(run, &measured, compare_primary);
    nodes::claim(run, &measured, &mut comparisons);
    comparisons
}

/// An unfair comparison has no headline; an arm that failed has failed all the same.
fn withhold(judgement: &mut Judgement, baseline: &str) {
    let findings = &judgement.fairness;
    for headline in &mut judgement.headlines {
        let of_whom = (&*headline.workload, &*headline.arm, baseline);
        let violations: Vec<String> = withholding(findings, of_whom)
            .map(|one| one.id.clone())
            .collect();
        if !violations.is_empty() && !matches!(headline.conclusion, Conclusion::Failed(_)) {
            headline.conclusion = Conclusion::Withheld { violations };
        }
    }
}

/// Whether a workload's primary metric is decided for all arms, so that it needs no more blocks.
///
/// Never so before the plan's `min_blocks`, because the rule does not decide before its first look.
pub fn is_decided(comparisons: &[Comparison], workload: &str) -> bool {
    let primary = |comparison: &&Comparison| {
        comparison.workload == workload && comparison.spec.role == Role::Primary
    };
    let mut primaries = comparisons.iter().filter(primary).peekable();
    primaries.peek().is_some() && primaries.all(|primary| primary.verdict != Verdict::Undecided)
}

/// Compares some metrics of one arm on one workload, whose metrics these are.
type CompareArm = fn(&Run, &Measured<'_>, (&str, &str), &[MetricSpec]) -> Vec<Comparison>;

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
    let each = specs.iter().zip(findings).zip(&pairs);
    each.map(|((spec, finding), pairs)| comparison((workload, arm), spec, &finding, pairs.clone()))
        .collect()
}

/// The primary metric of one arm, at a look of a run that goes on.
fn compare_primary(
    run: &Run,
    measured: &Measured<'_>,
    (workload, arm): (&str, &str),
    specs: &[MetricSpec],
) -> Vec<Comparison> {
    let Some(spec) = specs.first().filter(|spec| spec.role == Role::Primary) else {
        return Vec::new();
    };
    let pairs = measured.pairs(workload, (&run.plan.baseline, arm), &spec.name);
    let series = Series {
        pairs: &pairs,
        direction: spec.direction,
    };
    let (key, has_secondary) = (format!("{workload}\n{arm}"), specs.len() > 1);
    let finding = rule::decide_at_look(series, &run.plan.design, &key, has_secondary);
    vec![comparison((workload, arm), spec, &finding, pairs)]
}

/// What was found of one metric of one arm.
fn comparison(
    (workload, arm): (&str, &str),
    spec: &MetricSpec,
    finding: &Finding,
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
        outliers: outliers::of(&pairs, spec.direction),
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
        // One look, after the last block.
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
                rule::estimate_history(series, &run.plan.design, &key, has_secondary);
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

#[cfg(test)]
mod tests;
