//! `judge` and `report` on run directories: gates, options that do not apply, closed pipes.

use std::path::Path;

use expect_test::expect;
use machine::fake::Behaviour;
use serde_json::Value;

use crate::golden::golden;
use crate::program::{bakeoff, command, refusal, stderr, stdout};
use crate::simulated_lab::{PLAN, World, read_plan};

/// Runs a world in a new directory, until the journal has this many entries.
fn run(world: &World, entries: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    // A run that stops by itself returns an error, which some tests want.
    let _ = world.run(dir.path(), |entry| entry >= entries);
    dir
}

/// Status and standard error of `judge . --fail-on GATE`.
fn gate(dir: &Path, gate: &str) -> (Option<i32>, String) {
    let output = bakeoff(dir, &["show", ".", "--fail-on", gate]);
    (output.status.code(), stderr(&output))
}

#[track_caller]
fn check(world: &World, entries: u32, want: [(&str, i32, &str); 2]) {
    let dir = run(world, entries);
    for (name, status, message) in want {
        let (code, error) = gate(dir.path(), name);
        assert_eq!(code, Some(status), "{name}: {error}");
        assert!(error.contains(message), "{name}: {error}");
    }
    assert_eq!(bakeoff(dir.path(), &["show", "."]).status.code(), Some(0));
}

const ALL: u32 = u32::MAX;

#[test]
fn a_loss_trips_every_gate_and_an_equivalent_arm_none() {
    let tripped = "throughput of new is worse";
    check(
        &World::new(0.90, 0.002, &[]),
        ALL,
        [("regression", 1, tripped), ("worse", 1, tripped)],
    );
    check(
        &World::new(1.10, 0.002, &[]),
        ALL,
        [("regression", 0, ""), ("worse", 0, "")],
    );
}

#[test]
fn the_gate_for_defects_needs_logs_that_were_read() {
    let healthy = run(&World::new(0.90, 0.002, &[]), ALL);
    let (code, error) = gate(healthy.path(), "defect");
    assert_eq!(code, Some(0), "{error}");
    // A panic in only one arm is a defect of that arm.
    let panics = [Behaviour::Measures, Behaviour::Panics, Behaviour::Panics];
    let (code, error) = gate(run(&World::new(1.0, 0.002, &panics), ALL).path(), "defect");
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("new in new: 2 kernel panics (fake)"),
        "{error}"
    );
    let (code, error) = gate(&golden("worse"), "defect");
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("was read in no trial"), "{error}");
}

#[test]
fn a_regression_in_noise_has_no_answer() {
    check(
        &World::new(1.02, 0.20, &[]),
        ALL,
        [
            ("regression", 3, "web-static: throughput of new: "),
            ("worse", 0, ""),
        ],
    );
}

#[test]
fn an_unfinished_run_never_passes_a_gate() {
    let open = "the run is not finished";
    let want = [("regression", 3, open), ("worse", 3, open)];
    check(&World::new(1.0, 0.002, &[]), 1, want);
    check(&World::new(1.0, 0.002, &[]), 6, want);
    check(&World::new(1.10, 0.002, &[]), 20, want);
}

#[test]
fn too_few_blocks_never_pass_a_gate() {
    let text = PLAN
        .replace("min_blocks = 6", "min_blocks = 3")
        .replace("max_blocks = 8", "max_blocks = 3");
    let mut world = World::new(1.10, 0.002, &[]);
    world.plan = read_plan(&text);
    let dir = tempfile::tempdir().unwrap();
    world.run_text(dir.path(), &text, |_| false).unwrap();
    for name in ["regression", "worse"] {
        let (code, text) = gate(dir.path(), name);
        assert_eq!(code, Some(3), "{name}: {text}");
        assert!(text.contains("throughput of new: too few blocks"), "{text}");
    }
    let output = bakeoff(dir.path(), &["show", "."]);
    let text = stdout(&output);
    let state = text.lines().nth(1).unwrap();
    expect!["fake machine, simulated time; finished after 3 blocks, the most that the plan allows: undecided"]
        .assert_eq(state);
    assert!(
        text.contains("(in round brackets: the lowest and the highest block"),
        "{text}"
    );
}

#[test]
fn too_few_figures_never_pass_a_gate() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "1.0\n1.1\n").unwrap();
    std::fs::write(dir.path().join("b.txt"), "2.0\n2.1\n").unwrap();
    let args = [
        "judge",
        "a.txt",
        "b.txt",
        "--higher-is-better",
        "--fail-on",
        "worse",
    ];
    let output = bakeoff(dir.path(), &args);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("too few for any verdict"), "{error}");
}

#[test]
fn an_arm_that_never_boots_trips_every_gate_and_a_baseline_none() {
    let world = World::new(1.0, 0.001, &[Behaviour::Panics; 100]);
    let failed = "arm new fails: no figure in block";
    let want = [("regression", 1, failed), ("worse", 1, failed)];
    check(&world, ALL, want);
    let mut world = World::new(1.0, 0.001, &[]);
    world.set_boots("old", &[Behaviour::Panics; 100]);
    let failed = "the baseline gave no figure";
    let want = [("regression", 3, failed), ("worse", 3, failed)];
    check(&world, ALL, want);
}

#[test]
fn an_arm_that_never_boots_is_failed_in_the_headline() {
    let dir = run(&World::new(1.0, 0.001, &[Behaviour::Panics; 100]), ALL);
    let text = stdout(&bakeoff(dir.path(), &["show", "."]));
    let (_, last) = text.trim_end().rsplit_once("\n\n").unwrap();
    expect![[r#"
        new failed: 3 of 3 trials (6 attempts), kernel panic
            Kernel panic - not syncing
            new in new: 6 kernel panics (fake)
        report: none yet (bakeoff show . --report writes it)"#]]
    .assert_eq(last);
    let output = bakeoff(dir.path(), &["show", ".", "--json"]);
    let judged: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(judged["headlines"][0]["verdict"], "failed");
}

#[test]
fn what_a_plan_has_fixed_cannot_be_changed_for_its_run() {
    let dir = run(&World::new(1.0, 0.002, &[]), 6);
    let output = bakeoff(dir.path(), &["show", ".", "--error-rate", "5%"]);
    expect![[r#"
        bakeoff: --error-rate is for several runs: the plan of a run fixes its error rate, because choosing it after seeing results invalidates it (leave it out)
    "#]].assert_eq(&refusal(&output));
    let output = bakeoff(dir.path(), &["judge", ".", "--margin", "1%"]);
    expect![[r#"
        bakeoff: one run alone: . (bakeoff show . shows it; to compare runs, name several)
    "#]]
    .assert_eq(&refusal(&output));
}

/// Runs the program with a standard output whose reading end is closed.
fn with_closed_stdout(dir: &Path, args: &[&str]) -> std::process::ExitStatus {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command(dir, args)
        .stdout(writer)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .output()
        .expect("the binary under test runs");
    let error = stderr(&output);
    assert!(!error.contains("panicked"), "{args:?}: {error}");
    output.status
}

#[test]
fn a_closed_pipe_ends_every_command_with_sigpipe() {
    use std::os::unix::process::ExitStatusExt;

    const SIGPIPE: i32 = 13;
    let dir = run(&World::new(1.10, 0.002, &[]), ALL);
    std::fs::write(dir.path().join("a.txt"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
    std::fs::write(dir.path().join("b.txt"), "2\n3\n4\n5\n6\n7\n8\n9\n1.5\n").unwrap();
    for args in [
        &["show", ".", "--json"][..],
        &["show", "."],
        &["show", ".", "--markdown"],
        &["judge", "a.txt", "b.txt", "--lower-is-better"],
        &["judge", "a.txt", "b.txt", "--lower-is-better", "--json"],
        &["show", ".", "--report"],
        &["show", ".", "--report", "--json"],
        &["check", "plan.toml"],
        &["check", "plan.toml", "--json"],
        &["check", "--power", "plan.toml", "--runs", "1"],
        &["cache", "image", "list"],
        &["completions", "bash"],
        &["man", "."],
        &["--help"],
        &["judge", "--help"],
        &["--version"],
    ] {
        let status = with_closed_stdout(dir.path(), args);
        assert_eq!(status.signal(), Some(SIGPIPE), "{args:?}");
    }
}
