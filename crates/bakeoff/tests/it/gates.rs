//! What `judge` and `report` do with run directories: gates, options that do not apply, readers that go away.

use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect;
use machine::fake::Behaviour;
use plan::Checks;
use serde_json::Value;

use crate::program::bakeoff;
use crate::simulated_lab::{PLAN, World};

/// A run of a world in a directory of its own, up to so many entries of the journal.
fn run(world: &World, entries: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    // A run that stops by itself has an error, and that is what is asked about.
    let _ = world.run(dir.path(), |entry| entry >= entries);
    dir
}

/// The status of `judge . --fail-on GATE`, and what is said on standard error.
fn gate(dir: &Path, gate: &str) -> (Option<i32>, String) {
    let output = bakeoff(dir, &["judge", ".", "--fail-on", gate]);
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[track_caller]
fn check(world: &World, entries: u32, want: [(&str, i32, &str); 3]) {
    let dir = run(world, entries);
    for (name, status, says) in want {
        let (code, said) = gate(dir.path(), name);
        assert_eq!(code, Some(status), "{name}: {said}");
        assert!(said.contains(says), "{name}: {said}");
    }
    assert_eq!(bakeoff(dir.path(), &["judge", "."]).status.code(), Some(0));
}

const ALL: u32 = u32::MAX;

#[test]
fn a_loss_trips_every_gate_and_an_equivalent_arm_none() {
    let tripped = "throughput of new is worse";
    check(
        &World::new(0.90, 0.002, &[]),
        ALL,
        [
            ("worse", 1, tripped),
            ("any-worse", 1, tripped),
            ("undecided", 1, tripped),
        ],
    );
    check(
        &World::new(1.10, 0.002, &[]),
        ALL,
        [("worse", 0, ""), ("any-worse", 0, ""), ("undecided", 0, "")],
    );
}

#[test]
fn logs_without_a_defect_trip_nothing_and_logs_that_nobody_read_are_no_answer() {
    let healthy = run(&World::new(0.90, 0.002, &[]), ALL);
    let (code, said) = gate(healthy.path(), "defect");
    assert_eq!(code, Some(0), "{said}");
    // An arm that panics where the baseline does not has a defect of its own.
    let panics = [Behaviour::Measures, Behaviour::Panics, Behaviour::Panics];
    let (code, said) = gate(run(&World::new(1.0, 0.002, &panics), ALL).path(), "defect");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("new in new: 2 kernel panics (fake)"),
        "{said}"
    );
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/worse");
    let (code, said) = gate(&old, "defect");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("was read in no trial"), "{said}");
}

#[test]
fn noise_trips_only_the_gate_that_asks_for_it() {
    check(
        &World::new(1.02, 0.20, &[]),
        ALL,
        [
            ("worse", 0, ""),
            ("any-worse", 0, ""),
            ("undecided", 1, "throughput of new is undecided"),
        ],
    );
}

#[test]
fn a_run_that_is_not_finished_never_passes() {
    let open = "the run is not finished";
    let want = [
        ("worse", 2, open),
        ("any-worse", 2, open),
        ("undecided", 2, open),
    ];
    check(&World::new(1.0, 0.002, &[]), 1, want);
    check(&World::new(1.0, 0.002, &[]), 6, want);
    check(&World::new(1.10, 0.002, &[]), 20, want);
}

#[test]
fn a_plan_of_too_few_blocks_never_passes() {
    let text = PLAN
        .replace("min_blocks = 6", "min_blocks = 3")
        .replace("max_blocks = 8", "max_blocks = 3");
    let mut world = World::new(1.10, 0.002, &[]);
    let checks = Checks::of_the_past(&workload::check);
    world.plan = plan::read("plan.toml", &text, Path::new(""), checks).unwrap();
    let dir = tempfile::tempdir().unwrap();
    world.run_text(dir.path(), &text, |_| false).unwrap();
    for name in ["worse", "any-worse", "undecided"] {
        let (code, said) = gate(dir.path(), name);
        assert_eq!(code, Some(2), "{name}: {said}");
        assert!(said.contains("throughput of new: too few blocks"), "{said}");
    }
    let output = bakeoff(dir.path(), &["judge", "."]);
    let said = String::from_utf8(output.stdout).unwrap();
    let state = said.lines().nth(1).unwrap();
    expect!["fake machine, simulated time; finished after 3 blocks, the most that the plan allows: undecided"]
        .assert_eq(state);
    assert!(
        said.contains("(in round brackets: the lowest and the highest block"),
        "{said}"
    );
}

#[test]
fn figures_too_few_to_judge_never_pass() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "1.0\n1.1\n").unwrap();
    std::fs::write(dir.path().join("b.txt"), "2.0\n2.1\n").unwrap();
    let words = [
        "judge",
        "a.txt",
        "b.txt",
        "--higher-is-better",
        "--fail-on",
        "worse",
    ];
    let output = bakeoff(dir.path(), &words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("too few for any verdict"), "{said}");
}

#[test]
fn an_arm_that_never_boots_trips_every_gate_and_a_baseline_none() {
    let world = World::new(1.0, 0.001, &[Behaviour::Panics; 100]);
    let failed = "arm new fails: no figure in block";
    let want = [
        ("worse", 1, failed),
        ("any-worse", 1, failed),
        ("undecided", 1, failed),
    ];
    check(&world, ALL, want);
    let mut world = World::new(1.0, 0.001, &[]);
    world.fail("old", &[Behaviour::Panics; 100]);
    let failed = "the baseline gave no figure";
    let want = [
        ("worse", 2, failed),
        ("any-worse", 2, failed),
        ("undecided", 2, failed),
    ];
    check(&world, ALL, want);
}

#[test]
fn an_arm_that_never_boots_is_failed_in_the_headline() {
    let dir = run(&World::new(1.0, 0.001, &[Behaviour::Panics; 100]), ALL);
    let output = bakeoff(dir.path(), &["judge", "."]);
    let said = String::from_utf8(output.stdout).unwrap();
    let (_, last) = said.trim_end().rsplit_once("\n\n").unwrap();
    expect![[r#"
        new failed: 3 of 3 trials (6 attempts), kernel panic
            Kernel panic - not syncing
            new in new: 6 kernel panics (fake)
        A/A history of this machine: not known (an earlier version made this run, or a-a.json is gone)
        1 defect of kernel and services in 3 trials (of 6 attempts only the console is known)
        60 fairness checks: 2 violated (server-stressed, trials-fail-alike), 4 passed, 2 declared (one-load,
        static-pages), 48 not known (boot-log, clocksource, command-line, compiler, congestion-control,
        control-groups, cpu-model, cpus, descriptors, huge-pages, io-scheduler, kernel-configuration and 36
        more), 4 not applicable
        full disclosure: in report.html and report.md (tested by: not stated)"#]]
    .assert_eq(last);
    let output = bakeoff(dir.path(), &["judge", ".", "--json"]);
    let judged: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(judged["headlines"][0]["verdict"], "failed");
}

#[test]
fn options_that_do_not_apply_to_a_run_are_refused() {
    let dir = run(&World::new(1.0, 0.002, &[]), 6);
    for option in [
        &["--margin", "1%"][..],
        &["--error-rate", "5%"],
        &["--seed", "3"],
        &["--metric", "throughput"],
        &["--baseline", "new"],
        &["--lower-is-better"],
        &["--samples-are-runs"],
    ] {
        let output = bakeoff(dir.path(), &[&["judge", "."], option].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(2), 0),
            "{said}"
        );
        assert!(said.contains(option[0]), "{said}");
    }
    let output = bakeoff(dir.path(), &["judge", ".", "--margin", "1%"]);
    expect![[r#"
        bakeoff: a run is judged by the plan that it was made by, because what is chosen after the figures are seen has no error rate: --margin with . (leave it out, or run a plan that says so)
    "#]].assert_eq(&String::from_utf8(output.stderr).unwrap());
}

/// Runs with standard output and standard error closed by their reader before anything is written.
fn unread(dir: &Path, words: &[&str]) -> std::process::ExitStatus {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    let command = command
        .args(words)
        .current_dir(dir)
        .stdout(writer)
        .stderr(Stdio::piped())
        .env("XDG_CACHE_HOME", dir.join("cache"));
    let output = command.output().expect("the binary under test runs");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("panicked"), "{words:?}: {said}");
    output.status
}

#[test]
fn a_reader_that_goes_away_ends_every_verb_as_it_ends_any_filter() {
    use std::os::unix::process::ExitStatusExt;

    const SIGPIPE: i32 = 13;
    let dir = run(&World::new(1.10, 0.002, &[]), ALL);
    std::fs::write(dir.path().join("a.txt"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    std::fs::write(dir.path().join("b.txt"), "2\n3\n4\n5\n6\n7\n8\n9\n1.5\n").unwrap();
    for words in [
        &["judge", ".", "--json"][..],
        &["judge", "."],
        &["judge", ".", "--markdown"],
        &["judge", "a.txt", "b.txt", "--lower-is-better"],
        &["judge", "a.txt", "b.txt", "--lower-is-better", "--json"],
        &["report", "."],
        &["report", ".", "--json"],
        &["check", "plan.toml"],
        &["check", "plan.toml", "--json"],
        &["simulate", "plan.toml", "--runs", "1"],
        &["image", "list"],
        &["completions", "bash"],
        &["man", "."],
        &["--help"],
        &["judge", "--help"],
        &["--version"],
    ] {
        assert_eq!(
            unread(dir.path(), words).signal(),
            Some(SIGPIPE),
            "{words:?}"
        );
    }
}
