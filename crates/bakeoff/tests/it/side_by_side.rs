//! Trials that run at the same time give the same results as one after the other.

use std::fs;
use std::path::Path;

use bakeoff::lab::Finish;
use record::hash;
use record::journal::{Ending, Event};
use record::verdict::Verdict;

use crate::simulated_lab::{World, judged, load_run};

/// A world whose verdict needs several interim analyses.
fn world(jobs: usize) -> World {
    let mut world = World::new(1.03, 0.01, &[]);
    world.jobs = jobs;
    world
}

fn finished(jobs: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let finish = world(jobs).run(dir.path(), |_| false).unwrap();
    assert_eq!(finish, Finish::Complete);
    dir
}

/// The measured trials in the order of their numbers.
fn trials(dir: &Path) -> Vec<String> {
    let mut records = load_run(dir).attempts;
    records.sort_by_key(|record| record.trial.number);
    records
        .iter()
        .map(|record| serde_json::to_string(record).unwrap())
        .collect()
}

fn analyses(dir: &Path) -> Vec<Event> {
    let entries = load_run(dir).entries.into_iter().map(|entry| entry.event);
    entries
        .filter(|event| matches!(event, Event::InterimAnalysis { .. } | Event::Closed { .. }))
        .collect()
}

#[test]
fn any_number_of_jobs_gives_the_same_trials_looks_and_verdict() {
    let alone = finished(1);
    for jobs in [2, 3, 16] {
        let dir = finished(jobs);
        assert_eq!(trials(dir.path()), trials(alone.path()), "{jobs} jobs");
        assert_eq!(analyses(dir.path()), analyses(alone.path()), "{jobs} jobs");
        assert_eq!(judged(dir.path()), judged(alone.path()), "{jobs} jobs");
    }
}

#[test]
fn an_interrupted_run_of_several_jobs_resumes_with_the_same_result() {
    check_interruptions(7);
}

#[test]
#[ignore = "a run for each entry: make test-all"]
fn a_run_of_several_jobs_that_is_interrupted_after_any_entry_resumes_with_the_same_result() {
    check_interruptions(1);
}

/// Interrupts runs of several jobs after every nth entry. The results must be the same.
fn check_interruptions(every: usize) {
    let whole = finished(1);
    let (numbers, judgement) = (trials(whole.path()), judged(whole.path()));
    for stop in (1..30).step_by(every) {
        let dir = tempfile::tempdir().unwrap();
        world(3).run(dir.path(), |entry| entry >= stop).unwrap();
        let finish = world(2).run(dir.path(), |_| false).unwrap();
        assert_eq!(finish, Finish::Complete, "stopped after {stop}");
        assert_eq!(trials(dir.path()), numbers, "stopped after {stop}");
        assert_eq!(judged(dir.path()), judgement, "stopped after {stop}");
    }
}

#[test]
fn a_trial_beyond_the_decision_does_not_count() {
    let dir = finished(1);
    let before = judged(dir.path());
    assert_ne!(before.comparisons[0].verdict, Verdict::Undecided);
    let run = load_run(dir.path());
    let last_analysis = run
        .entries
        .iter()
        .rposition(|entry| matches!(entry.event, Event::InterimAnalysis { .. }));
    let last_analysis = last_analysis.unwrap();

    // Record a trial of the block after the decision, before the last interim analysis.
    let mut record = run.attempts[0].clone();
    record.trial.number = run.attempts.len() as u32 + 1;
    record.trial.block = run.attempts.last().unwrap().trial.block + 1;
    let body = serde_json::to_vec_pretty(&record).unwrap();
    let trial_dir = format!("trials/{:03}", record.trial.number);
    let trial_dir = dir.path().join(trial_dir);
    fs::create_dir(&trial_dir).unwrap();
    fs::write(trial_dir.join("trial.json"), &body).unwrap();
    let mut early = run.entries[last_analysis].clone();
    early.event = Event::Ended {
        trial: record.trial,
        attempt: 1,
        ending: Ending::Measured,
        record: hash::sha256(&body),
        facts: None,
    };
    let mut entries = run.entries.clone();
    entries.insert(last_analysis, early);
    let lines = entries
        .iter()
        .map(|entry| serde_json::to_string(entry).unwrap() + "\n");
    fs::write(dir.path().join("journal.jsonl"), lines.collect::<String>()).unwrap();

    assert_eq!(load_run(dir.path()).entries.len(), run.entries.len() + 1);
    assert_eq!(load_run(dir.path()).attempts, run.attempts);
    assert_eq!(judged(dir.path()), before);
}
