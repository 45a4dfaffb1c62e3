//! Trials that run only for their profile, on a fake machine whose slow arm is slow in one
//! function.

use std::fs;
use std::path::Path;

use bakeoff::lab::Finish;
use machine::fake::Behaviour;
use record::journal;
use record::journal::Event;
use record::rundir;
use record::rundir::ProfileNote;
use record::verdict::Verdict;
use serde_json::Value;

use crate::program::{self, command, refusal, stdout};
use crate::simulated_lab::{PLAN, World, judged, load_run};

/// A world whose plan has `[why]`.
pub(crate) fn world_with_why(ratio: f64, boots: &[Behaviour]) -> World {
    let mut world = World::new(ratio, 0.002, boots);
    world.plan.why = true;
    world
}

pub(crate) fn run(world: &World, dir: &Path, interrupt: impl Fn(u32) -> bool) -> Finish {
    let text = plan::explained(PLAN);
    world.run_text(dir, &text, interrupt).unwrap()
}

fn bakeoff(args: &[&str]) -> String {
    let mut command = command(Path::new("."), args);
    let output = command.env("COLUMNS", "140").output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    stdout(&output)
}

#[test]
fn trials_for_profiles_are_not_judged() {
    let (plain, profiled) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    World::new(0.9, 0.002, &[])
        .run(plain.path(), |_| false)
        .unwrap();
    let finish = run(&world_with_why(0.9, &[]), profiled.path(), |_| false);
    assert_eq!(finish, Finish::Complete);
    let (without, with) = (judged(plain.path()), judged(profiled.path()));
    assert_eq!(with.comparisons, without.comparisons);
    assert_eq!(with.comparisons[0].verdict, Verdict::Worse);
    let run = load_run(profiled.path());
    assert_eq!(run.attempts.len(), load_run(plain.path()).attempts.len());
    assert_eq!(run.profiled.len(), run.attempts.len());
    assert!(run.closed().is_some());
    let numbers: Vec<u32> = run
        .profiled
        .iter()
        .map(|attempt| attempt.trial.number)
        .collect();
    let expected: Vec<u32> = (1..=run.profiled.len() as u32).collect();
    assert_eq!(numbers, expected);
    for attempt in &run.profiled {
        assert!(matches!(attempt.profile, Some(ProfileNote::Sampled { .. })));
    }
    assert!(run.attempts.iter().all(|attempt| attempt.profile.is_none()));
    // A run whose profiled trials are lost cannot be loaded.
    fs::remove_dir_all(profiled.path().join("profiled")).unwrap();
    let why = rundir::load(profiled.path(), &workload::check).unwrap_err();
    assert!(format!("{why:#}").contains("lost record"), "{why:#}");
}

#[test]
fn the_slow_function_is_named_and_unattributable_time_is_separate() {
    let dir = tempfile::tempdir().unwrap();
    run(&world_with_why(0.9, &[]), dir.path(), |_| false);
    let path = dir.path().to_str().unwrap();
    let all: Value = serde_json::from_str(&bakeoff(&["why", path, "--json"])).unwrap();
    let why = &all[0];
    assert_eq!(why["metric"], "cpu-time");
    // A ninth of a millisecond, up to the noise of the world.
    let difference = why["difference"].as_f64().unwrap();
    assert!((difference - 111_111.0).abs() < 3000.0, "{difference}");
    let remainder = why["remainder"].as_f64().unwrap();
    assert!(remainder.abs() < 0.005 * difference, "{remainder}");
    let significant: Vec<&Value> = why["mechanisms"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["significant"] == true)
        .collect();
    let [user] = significant[..] else {
        panic!("one mechanism: {significant:?}");
    };
    assert_eq!(user["name"], "user code");
    assert_eq!(user["functions"][0]["name"], "libz.so.1: deflate");
    let not_attributable = why["mechanisms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "not attributable")
        .unwrap();
    assert!((not_attributable["baseline"].as_f64().unwrap() - 50_000.0).abs() < 1000.0);
    assert_eq!(why["sampling"]["clock"], "cpu-clock");
    let counter = &why["counters"][0];
    assert_eq!(counter["name"], "context-switches");
    assert!((counter["baseline"].as_f64().unwrap() - 2.0).abs() < 0.01);
    let text = bakeoff(&["why", path]);
    for part in [
        "CPU time a request, by mechanism:",
        "sampled, not counted:",
        "which are not judged",
        "counters a request:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("instructions"), "{text}");
    let stacks = bakeoff(&["why", path, "--folded", "1"]);
    assert!(stacks.contains("nginx;deflate "), "{stacks}");
    let listed = bakeoff(&["list", path]);
    assert!(listed.contains("unjudged for profiles"), "{listed}");
}

#[test]
fn a_run_that_is_interrupted_during_profiling_resumes_with_the_same_result() {
    check_interruptions_during_profiling(7);
}

#[test]
#[ignore = "a run for each entry: make test-all"]
fn a_run_that_is_interrupted_anywhere_during_profiling_resumes_with_the_same_result() {
    check_interruptions_during_profiling(1);
}

/// Interrupts runs after every nth entry. The results must be the same.
fn check_interruptions_during_profiling(every: usize) {
    let whole = tempfile::tempdir().unwrap();
    run(&world_with_why(0.9, &[]), whole.path(), |_| false);
    let entries = journal::read(whole.path()).unwrap();
    let results = |dir: &Path| {
        let entries = journal::read(dir).unwrap();
        let events = entries.into_iter().map(|entry| entry.event);
        events
            .filter(|event| matches!(event, Event::Profiled { .. } | Event::Closed { .. }))
            .collect::<Vec<Event>>()
    };
    let first = entries.iter().position(|entry| {
        matches!(
            entry.event,
            Event::Profiling { .. } | Event::Profiled { .. }
        )
    });
    let judgement = judged(whole.path());
    for stop in (first.unwrap()..entries.len()).step_by(every) {
        let dir = tempfile::tempdir().unwrap();
        run(&world_with_why(0.9, &[]), dir.path(), |entry| {
            entry >= stop as u32
        });
        run(&world_with_why(0.9, &[]), dir.path(), |_| false);
        assert_eq!(
            results(dir.path()),
            results(whole.path()),
            "stopped after {stop}"
        );
        assert_eq!(judged(dir.path()), judgement, "stopped after {stop}");
    }
}

#[test]
fn an_arm_that_cannot_be_sampled_is_tried_once_and_keeps_its_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let boots = [Behaviour::Unprofiled; 100];
    assert_eq!(
        run(&world_with_why(0.9, &boots), dir.path(), |_| false),
        Finish::Complete
    );
    assert_eq!(judged(dir.path()).comparisons[0].verdict, Verdict::Worse);
    let run = load_run(dir.path());
    let mut missing = Vec::new();
    for attempt in &run.profiled {
        if let Some(ProfileNote::Missing(why)) = &attempt.profile {
            missing.push(why.as_str());
        }
    }
    assert_eq!(missing, ["the guest told none"]);
    assert!(run.profiled.len() <= 2, "{}", run.profiled.len());
    let error = refusal(&program::bakeoff(
        dir.path(),
        &["why", dir.path().to_str().unwrap()],
    ));
    assert!(error.contains("the guest told none"), "{error}");
}
