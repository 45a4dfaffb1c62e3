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
//! beside the rule, for what has no end: bounds, trend, quantile
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
pub mod bounds;
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
pub mod quantile;
mod randomization;
mod reliability;
mod robustness;
pub mod rule;
mod score;
mod sequential_test;
pub mod service;
mod soak;
pub mod trend;
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
mod tests {
    use super::*;
    use fixtures::builder::{RunBuilder, THROUGHPUT};

    #[test]
    fn an_injected_gain_is_found_and_stops_the_run() {
        let run = RunBuilder::new().blocks(&[
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
        assert_eq!(primary.verdict, Verdict::Better, "{:?}", primary.reason);
        assert_eq!(
            (primary.blocks, primary.spec.name.as_str()),
            (10, THROUGHPUT)
        );
        assert!(is_decided(&judgement.comparisons, "web"));
        assert!(!is_decided(&judgement.comparisons, "no such workload"));
    }

    #[test]
    fn each_workload_and_arm_adds_to_the_probability_of_a_wrong_verdict() {
        let any_false = |builder: RunBuilder| judge(&builder.run()).any_false;
        assert!((any_false(RunBuilder::new()) - 0.05).abs() < 1e-12);
        let twice = |run: &mut Run| run.plan.workloads.push(run.plan.workloads[0].clone());
        assert!((any_false(RunBuilder::new().arm("7.3").with(twice)) - 0.2).abs() < 1e-12);
        let reckless = |run: &mut Run| run.plan.design.error_rate = 0.5;
        assert!(
            (any_false(RunBuilder::new().arm("7.3").arm("7.4").with(reckless)) - 1.0).abs() < 1e-12
        );
    }

    #[test]
    fn three_blocks_are_not_enough_for_a_plan_of_four() {
        let run = RunBuilder::new().blocks(&[[100.0, 107.2], [100.1, 107.5], [99.9, 107.1]]);
        let judgement = judge(&run.run());
        assert_eq!(judgement.comparisons[0].verdict, Verdict::Undecided);
        assert!(!is_decided(&judgement.comparisons, "web"));
    }

    #[test]
    fn a_run_with_nothing_measured_is_judged_too() {
        let judgement = judge(&RunBuilder::new().run());
        assert!(judgement.comparisons.is_empty());
        assert_eq!(judgement.arm_summaries.len(), 2);
        assert!(!is_decided(&judgement.comparisons, "web"));
        let voids = judge(&RunBuilder::new().void(1, "7.2").void(1, "6.1").run());
        assert!(voids.comparisons.is_empty());
        assert_eq!(voids.arm_summaries[1].voids.values().sum::<u32>(), 1);
    }

    #[test]
    fn one_arm_alone_gives_a_comparison_without_a_ratio() {
        let judgement = judge(&RunBuilder::new().measured(1, "6.1", 100.0).run());
        assert_eq!(judgement.comparisons.len(), 2);
        assert_eq!(judgement.comparisons[0].ratio, None);
        assert_eq!(judgement.comparisons[0].verdict, Verdict::Undecided);
    }

    #[test]
    fn the_same_run_gives_the_same_bytes() {
        let run = RunBuilder::new()
            .blocks(&[[1.0, 2.0], [1.1, 2.1]])
            .void(3, "7.2")
            .run();
        let bytes = || serde_json::to_vec(&judge(&run)).unwrap();
        assert_eq!(bytes(), bytes());
    }

    /// 500 blocks of two workloads with ten metrics each, so noisy that none is decided.
    fn longest_run() -> Run {
        let loud = noise_models::named().find(|noise| noise.word == "loud");
        let pairs = noise_models::pairs(loud.unwrap(), 0.0, plan::MOST_BLOCKS, (1, 0));
        let figures: Vec<[f64; 2]> = pairs.iter().map(|one| [one.baseline, one.arm]).collect();
        RunBuilder::new()
            .blocks(&figures)
            .with(|run| {
                run.plan.design.max_blocks = plan::MOST_BLOCKS;
                for record in &mut run.attempts {
                    let record::trial::Outcome::Measured(measurement) = &mut record.outcome else {
                        panic!("all trials are measured");
                    };
                    let figures = &mut measurement.figures;
                    for metric in figures.len()..10 {
                        let mut figure = figures[0].clone();
                        figure.spec.name = format!("metric {metric}");
                        figures.push(figure);
                    }
                }
                let mut other = run.plan.workloads[0].clone();
                other.id = "cgi".into();
                run.plan.workloads.push(other);
                for mut record in run.attempts.clone() {
                    record.trial.workload = "cgi".into();
                    record.trial.number += run.attempts.len() as u32;
                    run.attempts.push(record);
                    run.facts.push(None);
                }
            })
            .run()
    }

    /// CPU time of this thread, so that other work on the machine does not count.
    fn cpu_ns() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn a_look_at_the_longest_run_takes_less_than_a_second() {
        let run = longest_run();
        let look = || {
            let since = cpu_ns();
            let primaries = primaries(&run);
            let verdicts: Vec<Verdict> = primaries.iter().map(|one| one.verdict).collect();
            assert_eq!(verdicts, [Verdict::Undecided; 2]);
            assert!(primaries.iter().all(|one| one.blocks == plan::MOST_BLOCKS));
            cpu_ns() - since
        };
        let best_ms = (0..3).map(|_| look()).min().unwrap() / 1_000_000;
        println!("a look at 500 blocks of 2 workloads with 10 metrics: {best_ms} ms of CPU time");
        assert!(best_ms < 1000, "{best_ms} ms");
    }

    #[test]
    fn figures_come_back_from_a_file_to_the_last_bit() {
        let pairs = noise_models::pairs(noise_models::REFERENCE, 0.0, 500, (1, 0));
        let text = serde_json::to_string(&pairs).unwrap();
        let back: Vec<Pair> = serde_json::from_str(&text).unwrap();
        let bits =
            |pairs: &[Pair]| -> Vec<u64> { pairs.iter().map(|pair| pair.arm.to_bits()).collect() };
        assert_eq!(bits(&back), bits(&pairs));
    }

    #[test]
    fn a_judgement_survives_its_file() {
        let judgement = judge(&RunBuilder::new().blocks(&[[1.0, 2.0]]).void(2, "7.2").run());
        let text = serde_json::to_string(&judgement).unwrap();
        assert_eq!(serde_json::from_str::<Judgement>(&text).unwrap(), judgement);
    }

    /// What an arm's trial of one block can be.
    const ENDINGS: [fn(RunBuilder, u32, &str) -> RunBuilder; 4] = [
        |builder, _, _| builder,
        |builder, block, arm| builder.measured(block, arm, 100.0 + f64::from(block)),
        RunBuilder::void,
        |builder, block, arm| {
            builder.void(block, arm).with(|run| {
                let last = run.attempts.last_mut().expect("an attempt was just added");
                last.outcome = record::trial::Outcome::Skipped("given up".into());
            })
        },
    ];

    /// What a record may hold where a figure belongs.
    const FIGURES: [f64; 8] = [
        1.0,
        0.0,
        -0.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::MAX,
        f64::from_bits(1),
    ];

    fn all_that_is_said(run: &Run) {
        let judgement = judge(run);
        let last = run.attempts.iter().map(|one| one.trial.number);
        let numbers: Vec<u32> = last.collect();
        for workload in ["web", "no such workload"] {
            is_decided(&judgement.comparisons, workload);
            for trials in [&numbers[..], &[], &[99]] {
                disturbance(run, workload, trials);
            }
        }
        serde_json::to_vec(&judgement).unwrap();
    }

    /// Two blocks of two arms, ended in every way: none, one and two measured trials of each arm, mixed.
    fn every_mixture(change: impl Fn(&mut Run)) {
        let ways = ENDINGS.len();
        for way in 0..ways.pow(4) {
            let ending = |place: u32| ENDINGS[way / ways.pow(place) % ways];
            let mut builder = RunBuilder::new().with(|run| {
                (run.plan.design.min_blocks, run.plan.design.max_blocks) = (1, 2);
            });
            for block in 1..=2 {
                builder = ending(2 * block - 2)(builder, block, "6.1");
                builder = ending(2 * block - 1)(builder, block, "7.2");
            }
            all_that_is_said(&builder.with(&change).run());
        }
    }

    #[test]
    fn no_mixture_of_few_trials_panics() {
        every_mixture(|_| {});
        every_mixture(|run| run.plan.machine.kind = plan::MachineKind::Local);
        every_mixture(|run| run.opening.ns_per_instruction = Some(2));
        every_mixture(|run| run.plan.design.min_blocks = 2);
        every_mixture(|run| run.plan.design.max_blocks = 1);
        // What was measured of a block that was disturbed.
        every_mixture(|run| {
            let is_measured = |one: &record::rundir::TrialRecord| {
                matches!(one.outcome, record::trial::Outcome::Measured(_))
            };
            let (struck, kept) = run.attempts.drain(..).partition(is_measured);
            (run.struck, run.attempts) = (struck, kept);
            run.facts.truncate(run.attempts.len());
        });
    }

    #[test]
    fn no_figure_panics() {
        for figure in FIGURES {
            every_mixture(|run| {
                for record in run.attempts.iter_mut().filter(|one| one.trial.block == 2) {
                    if let record::trial::Outcome::Measured(measurement) = &mut record.outcome {
                        for one in &mut measurement.figures {
                            one.value = figure;
                        }
                    }
                }
            });
        }
    }

    #[test]
    fn no_set_of_metrics_panics() {
        let metrics: [fn(&mut record::trial::Measurement); 5] = [
            |one| one.figures.clear(),
            |one| one.figures.truncate(1),
            |one| one.load = None,
            |one| one.figures[1].spec.role = Role::Guard,
            |one| one.figures[0].spec.role = Role::Primary,
        ];
        for change in metrics {
            for arm in ["6.1", "7.2"] {
                every_mixture(|run| {
                    for record in run.attempts.iter_mut().filter(|one| one.trial.arm == arm) {
                        if let record::trial::Outcome::Measured(measurement) = &mut record.outcome {
                            change(measurement);
                        }
                    }
                });
            }
        }
    }

    #[test]
    fn more_blocks_than_the_plan_has_are_judged_too() {
        let few = |run: &mut Run| (run.plan.design.min_blocks, run.plan.design.max_blocks) = (2, 3);
        all_that_is_said(
            &RunBuilder::new()
                .blocks(&[[100.0, 107.0]; 70])
                .with(few)
                .run(),
        );
    }
}
