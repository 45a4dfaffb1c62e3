//! Interim analyses of a run: they agree with a judgement of all trials, and read no trial again.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use record::journal;
use record::journal::Event;
use record::verdict::Judgement;
use record::verdict::interim::{InterimMetric, InterimResult};

use crate::simulated_lab::{PLAN, World, disturbed_world, load_run, read_plan};

/// Journal entries of a block of two trials: two starts, two ends, one interim analysis.
const ENTRIES_PER_BLOCK: u32 = 5;

/// A world whose plan has this many blocks, and the plan.
fn long_world(ratio: f64, noise: f64, blocks: u32) -> (World, String) {
    let mut world = World::new(ratio, noise, &[]);
    let text = PLAN.replace("max_blocks = 8", &format!("max_blocks = {blocks}"));
    world.plan = read_plan(&text);
    (world, text)
}

/// The interim analyses of a run, each with its block.
fn analyses(dir: &Path) -> Vec<(u32, Vec<InterimResult>)> {
    let entries = journal::read(dir).unwrap();
    let analyses = entries.into_iter().filter_map(|entry| match entry.event {
        Event::InterimAnalysis {
            blocks, results, ..
        } => Some((blocks, results)),
        _ => None,
    });
    analyses.collect()
}

/// Whether an interim analysis agrees with the judgement of the same blocks.
fn agrees(result: &InterimResult, judgement: &Judgement) -> bool {
    let InterimResult::Metric(metric_result) = result;
    let InterimMetric {
        workload,
        metric,
        arm,
        verdict,
        blocks,
        ratio,
        low,
        high,
        confidence: _,
        remaining: _,
    } = metric_result;
    let comparison = judgement.comparison(workload, arm, metric).unwrap();
    let interval = if 200 < *blocks {
        (None, None)
    } else {
        (comparison.low, comparison.high)
    };
    *verdict == comparison.verdict
        && *blocks == comparison.blocks
        && *ratio == comparison.ratio
        && (*low, *high) == interval
}

/// Compares every nth interim analysis with a judgement of the run, loaded again.
fn check(dir: &Path, every: usize) {
    let all = analyses(dir);
    assert!(!all.is_empty());
    for (blocks, results) in all.iter().step_by(every) {
        let run = load_run(dir);
        let judgement = judge::summary(&run.within(*blocks));
        assert_eq!(results.len(), judgement.primaries().count());
        for result in results {
            assert!(
                agrees(result, &judgement),
                "{result:?} after block {blocks}"
            );
        }
    }
}

#[test]
fn interim_analyses_agree_with_a_judgement_of_all_trials() {
    use machine::fake::Behaviour::{Measures, Panics};

    for (ratio, noise) in [(1.1, 0.002), (1.03, 0.01), (1.0, 0.004), (0.98, 0.02)] {
        let dir = tempfile::tempdir().unwrap();
        let (mut world, text) = long_world(ratio, noise, 30);
        world.jobs = 1 + usize::from(ratio > 1.05);
        world.run_text(dir.path(), &text, |_| false).unwrap();
        check(dir.path(), 1);
    }
    let dir = tempfile::tempdir().unwrap();
    let boots = [Measures, Panics, Panics, Measures, Panics];
    let world = World::new(1.02, 0.02, &boots);
    world.run(dir.path(), |entry| entry >= 14).unwrap();
    world.run(dir.path(), |_| false).unwrap();
    check(dir.path(), 1);
    let dir = tempfile::tempdir().unwrap();
    let world = disturbed_world(&[3, 6, 13, 14, 16]);
    world.run(dir.path(), |_| false).unwrap();
    check(dir.path(), 1);
}

#[test]
#[ignore = "72 blocks, twice: make test-all"]
fn interim_analyses_read_no_old_trials() {
    let blocks = 72;
    let (kept, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (world, text) = long_world(1.008, 0.6, blocks);
    world.run_text(kept.path(), &text, |_| false).unwrap();
    let removed = Cell::new(0);
    let remove_old_trials = |entries: u32| {
        let ended = entries / ENTRIES_PER_BLOCK;
        // During a run, fairness checks see only the last 50 blocks.
        if let Some(block) = ended.checked_sub(51) {
            for trial in removed.get() + 1..=2 * block {
                let gone = cut.path().join(format!("trials/{trial:03}"));
                fs::remove_dir_all(gone).unwrap();
                removed.set(trial);
            }
        }
        false
    };
    let (world, text) = long_world(1.008, 0.6, blocks);
    world
        .run_text(cut.path(), &text, remove_old_trials)
        .unwrap();
    assert!(removed.get() > 2 * (blocks - 54), "{}", removed.get());
    assert_eq!(analyses(cut.path()), analyses(kept.path()));
    assert_eq!(analyses(kept.path()).len(), blocks as usize);
}
