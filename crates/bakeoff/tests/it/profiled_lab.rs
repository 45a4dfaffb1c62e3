//! Trials that are run for their profile alone, on a fake machine whose slow arm is slow in one function.

use std::fs;
use std::path::Path;
use std::process::Command;

use bakeoff::lab::Finish;
use machine::fake::Behaviour;
use record::journal;
use record::journal::Event;
use record::rundir;
use record::rundir::{ProfileNote, Run};
use record::verdict::Verdict;
use serde_json::Value;

use crate::simulated_lab::{PLAN, World, judged};

/// A world whose plan asks why.
pub(crate) fn asking(ratio: f64, boots: &[Behaviour]) -> World {
    let mut world = World::new(ratio, 0.002, boots);
    world.plan.why = true;
    world
}

pub(crate) fn run(world: &World, dir: &Path, interrupt: impl Fn(u32) -> bool) -> Finish {
    let text = plan::explained(PLAN);
    world.run_text(dir, &text, interrupt).unwrap()
}

fn load(dir: &Path) -> Run {
    rundir::load(dir, &workload::check).unwrap()
}

fn bakeoff(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(words)
        .env("COLUMNS", "140")
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_verdict_counts_no_trial_that_was_run_for_its_profile() {
    let (plain, profiled) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    World::new(0.9, 0.002, &[])
        .run(plain.path(), |_| false)
        .unwrap();
    let finish = run(&asking(0.9, &[]), profiled.path(), |_| false);
    assert_eq!(finish, Finish::Complete);
    let (without, with) = (judged(plain.path()), judged(profiled.path()));
    assert_eq!(with.comparisons, without.comparisons);
    assert_eq!(with.comparisons[0].verdict, Verdict::Worse);
    let run = load(profiled.path());
    assert_eq!(run.attempts.len(), load(plain.path()).attempts.len());
    assert_eq!(run.profiled.len(), run.attempts.len());
    assert!(run.closed().is_some());
    let numbers: Vec<u32> = run.profiled.iter().map(|one| one.trial.number).collect();
    let all: Vec<u32> = (1..=run.profiled.len() as u32).collect();
    assert_eq!(numbers, all);
    let is_sampled = |note: &Option<ProfileNote>| matches!(note, Some(ProfileNote::Sampled { .. }));
    assert!(run.profiled.iter().all(|one| is_sampled(&one.profile)));
    assert!(run.attempts.iter().all(|one| one.profile.is_none()));
    // Both are read without the other.
    fs::remove_dir_all(profiled.path().join("profiled")).unwrap();
    let why = rundir::load(profiled.path(), &workload::check).unwrap_err();
    assert!(format!("{why:#}").contains("lost record"), "{why:#}");
}

#[test]
fn the_function_that_is_slow_is_named_and_the_blind_ones_are_set_apart() {
    let dir = tempfile::tempdir().unwrap();
    run(&asking(0.9, &[]), dir.path(), |_| false);
    let path = dir.path().to_str().unwrap();
    let all: Value = serde_json::from_str(&bakeoff(&["why", path, "--json"])).unwrap();
    let why = &all[0];
    assert_eq!(why["metric"], "cpu-time");
    // A ninth of a millisecond, within the noise of the world.
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
    let blind = why["mechanisms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "not attributable")
        .unwrap();
    assert!((blind["baseline"].as_f64().unwrap() - 50_000.0).abs() < 1000.0);
    assert_eq!(why["sampling"]["clock"], "cpu-clock");
    let counter = &why["counters"][0];
    assert_eq!(counter["name"], "context-switches");
    assert!((counter["baseline"].as_f64().unwrap() - 2.0).abs() < 0.01);
    let text = bakeoff(&["why", path]);
    for said in [
        "CPU time a request, by mechanism:",
        "sampled, not counted:",
        "which are not judged",
        "counters a request:",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("instructions"), "{text}");
    let stacks = bakeoff(&["why", path, "--folded", "1"]);
    assert!(stacks.contains("nginx;deflate "), "{stacks}");
    let listed = bakeoff(&["list", path]);
    assert!(listed.contains("unjudged for profiles"), "{listed}");
}

#[test]
fn a_run_that_is_interrupted_among_profiles_ends_as_if_it_had_not_been() {
    interrupted_among_profiles(3);
}

#[test]
#[ignore = "a run for each entry: make test-all"]
fn a_run_that_is_interrupted_anywhere_among_profiles_ends_as_if_it_had_not_been() {
    interrupted_among_profiles(1);
}

/// Runs that are interrupted after every so many entries.
fn interrupted_among_profiles(every: usize) {
    let whole = tempfile::tempdir().unwrap();
    run(&asking(0.9, &[]), whole.path(), |_| false);
    let entries = journal::read(whole.path()).unwrap();
    let is_profile =
        |event: &Event| matches!(event, Event::Profiling { .. } | Event::Profiled { .. });
    let lasting = |dir: &Path| {
        let entries = journal::read(dir).unwrap();
        let events = entries.into_iter().map(|entry| entry.event);
        let lasts = |event: &Event| matches!(event, Event::Profiled { .. } | Event::Closed { .. });
        events.filter(lasts).collect::<Vec<Event>>()
    };
    let first = entries.iter().position(|entry| is_profile(&entry.event));
    let judgement = judged(whole.path());
    for stop in (first.unwrap()..entries.len()).step_by(every) {
        let dir = tempfile::tempdir().unwrap();
        run(&asking(0.9, &[]), dir.path(), |entry| entry >= stop as u32);
        run(&asking(0.9, &[]), dir.path(), |_| false);
        assert_eq!(
            lasting(dir.path()),
            lasting(whole.path()),
            "stopped after {stop}"
        );
        assert_eq!(judged(dir.path()), judgement, "stopped after {stop}");
    }
}

#[test]
fn an_arm_that_cannot_be_sampled_is_tried_once_and_the_verdict_stands() {
    let dir = tempfile::tempdir().unwrap();
    let boots = [Behaviour::Unprofiled; 100];
    assert_eq!(
        run(&asking(0.9, &boots), dir.path(), |_| false),
        Finish::Complete
    );
    assert_eq!(judged(dir.path()).comparisons[0].verdict, Verdict::Worse);
    let run = load(dir.path());
    let missing: Vec<&str> = run
        .profiled
        .iter()
        .filter_map(|one| match &one.profile {
            Some(ProfileNote::Missing(why)) => Some(why.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(missing, ["the guest told none"]);
    assert!(run.profiled.len() <= 2, "{}", run.profiled.len());
    let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .arg("why")
        .arg(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the guest told none"), "{said}");
}
