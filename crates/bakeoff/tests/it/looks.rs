//! Looks of a run that goes on: they say what all trials say, and read no trial again.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use plan::Checks;
use record::journal;
use record::journal::Event;
use record::rundir;
use record::verdict::look::{Look, MetricLook};
use record::verdict::{Comparison, Judgement};

use crate::simulated_lab::{PLAN, World, robbed};

/// Entries of a journal for each block of two trials: two begin, two end, one look.
const OF_BLOCK: u32 = 5;

/// A world of a plan of so many blocks, and the plan.
fn long(ratio: f64, noise: f64, blocks: u32) -> (World, String) {
    let mut world = World::new(ratio, noise, &[]);
    let text = PLAN.replace("max_blocks = 8", &format!("max_blocks = {blocks}"));
    let checks = Checks::of_the_past(&workload::check);
    world.plan = plan::read("plan.toml", &text, Path::new(""), checks).unwrap();
    (world, text)
}

/// The looks of a run, each with its block.
fn looks(dir: &Path) -> Vec<(u32, Vec<Look>)> {
    let entries = journal::read(dir).unwrap();
    let look = |event: Event| match event {
        Event::Looked { blocks, looks, .. } => Some((blocks, looks)),
        _ => None,
    };
    let events = entries.into_iter().map(|entry| entry.event);
    events.filter_map(look).collect()
}

/// Whether a look says what all trials say of the same blocks.
fn is_of(look: &Look, judgement: &Judgement) -> bool {
    let Look::Metric(look) = look;
    let MetricLook {
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
    } = look;
    let of_all: &Comparison = judgement.comparison(workload, arm, metric).unwrap();
    let ends = if 200 < *blocks {
        (None, None)
    } else {
        (of_all.low, of_all.high)
    };
    *verdict == of_all.verdict
        && *blocks == of_all.blocks
        && *ratio == of_all.ratio
        && (*low, *high) == ends
}

/// Each look of a run against all trials, read again.
fn check(dir: &Path, every: usize) {
    let all = looks(dir);
    assert!(!all.is_empty());
    for (blocks, looks) in all.iter().step_by(every) {
        let run = rundir::load(dir, &workload::check).unwrap();
        let judgement = judge::quick_look(&run.within(*blocks));
        assert_eq!(looks.len(), judgement.primaries().count());
        for look in looks {
            assert!(is_of(look, &judgement), "{look:?} after block {blocks}");
        }
    }
}

#[test]
fn a_look_says_what_all_trials_say_that_are_read_again() {
    use machine::fake::Behaviour::{Measures, Panics};

    for (ratio, noise) in [(1.1, 0.002), (1.03, 0.01), (1.0, 0.004), (0.98, 0.02)] {
        let dir = tempfile::tempdir().unwrap();
        let (mut world, text) = long(ratio, noise, 30);
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
    let world = robbed(&[3, 6, 13, 14, 16]);
    world.run(dir.path(), |_| false).unwrap();
    check(dir.path(), 1);
}

#[test]
#[ignore = "72 blocks, twice: make test-all"]
fn a_look_reads_no_trial_of_long_ago() {
    let blocks = 72;
    let (kept, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = |dir: &Path, entry: &dyn Fn(u32)| {
        let (world, text) = long(1.008, 0.6, blocks);
        let each = |number: u32| {
            entry(number);
            false
        };
        world.run_text(dir, &text, each).unwrap();
    };
    run(kept.path(), &|_| {});
    let removed = Cell::new(0);
    run(cut.path(), &|number| {
        let ended = number / OF_BLOCK;
        // Checks of fairness have the last 50 blocks.
        if let Some(block) = ended.checked_sub(51) {
            for trial in removed.get() + 1..=2 * block {
                let gone = cut.path().join(format!("trials/{trial:03}"));
                fs::remove_dir_all(gone).unwrap();
                removed.set(trial);
            }
        }
    });
    assert!(removed.get() > 2 * (blocks - 54), "{}", removed.get());
    assert_eq!(looks(cut.path()), looks(kept.path()));
    assert_eq!(looks(kept.path()).len(), blocks as usize);
}
