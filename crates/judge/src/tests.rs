//! What is said of whole runs.

use super::*;
use record::fixtures::builder::{RunBuilder, THROUGHPUT, measurements};
use record::rundir::TrialRecord;
use stats::noise_models;

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
    let pairs = noise_models::pairs(loud.unwrap(), 0.0, plan::MOST_BLOCKS, 1, 0);
    let figures: Vec<[f64; 2]> = pairs.iter().map(|one| [one.baseline, one.arm]).collect();
    RunBuilder::new()
        .blocks(&figures)
        .with(|run| {
            run.plan.design.max_blocks = plan::MOST_BLOCKS;
            for measurement in measurements(run) {
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
fn an_analysis_of_the_longest_run_takes_less_than_a_second() {
    let run = longest_run();
    let analysis = || {
        let since = cpu_ns();
        let primaries = primaries(&run);
        let verdicts: Vec<Verdict> = primaries.iter().map(|one| one.verdict).collect();
        assert_eq!(verdicts, [Verdict::Undecided; 2]);
        assert!(primaries.iter().all(|one| one.blocks == plan::MOST_BLOCKS));
        cpu_ns() - since
    };
    // Other tests share caches and cores, so some analyses take longer.
    let analyses_ms: Vec<u64> = (0..12).map(|_| analysis() / 1_000_000).collect();
    assert!(
        analyses_ms.iter().any(|ms| *ms < 1000),
        "{analyses_ms:?} ms"
    );
}

#[test]
fn figures_come_back_from_a_file_to_the_last_bit() {
    let pairs = noise_models::pairs(noise_models::REFERENCE, 0.0, 500, 1, 0);
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
        let is_measured = |one: &TrialRecord| one.outcome.measured().is_some();
        let (invalidated, kept) = run.attempts.drain(..).partition(is_measured);
        (run.invalidated, run.attempts) = (invalidated, kept);
        run.facts.truncate(run.attempts.len());
    });
}

#[test]
fn no_figure_panics() {
    for figure in FIGURES {
        every_mixture(|run| {
            for record in run.attempts.iter_mut().filter(|one| one.trial.block == 2) {
                let measurement = record.outcome.measured_mut();
                let figures = measurement.into_iter().flat_map(|one| &mut one.figures);
                figures.for_each(|one| one.value = figure);
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
        |one| one.figures[1].spec.role = Role::Secondary,
        |one| one.figures[0].spec.role = Role::Primary,
    ];
    for change in metrics {
        for arm in ["6.1", "7.2"] {
            every_mixture(|run| {
                for record in run.attempts.iter_mut().filter(|one| one.trial.arm == arm) {
                    record.outcome.measured_mut().map(change);
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
