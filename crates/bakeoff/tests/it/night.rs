//! Nightly runs: several plans in one command, and the index of their results.
//!
//! Tests that run on this host need root and cgroup2; otherwise they are reported as skipped. The
//! others use fake machines.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::local_machine;
use crate::program::{bakeoff, refusal, stderr, stdout};
use crate::simulated_lab::World;

/// A plan for this host with instant trials: the figure of an arm is in its environment.
fn plan(title: &str, arm: &str) -> String {
    format!(
        r#"
title = "{title}"
baseline = "plain"
[machine]
kind = "local"
[arm.plain]
env = {{ RATE = "100" }}
[arm.other]
env = {{ RATE = "{arm}" }}
[[workload]]
kind = "command"
name = "rate"
command = ["sh", "-c", "echo $RATE per second"]
[[workload.metric]]
name = "rate"
unit = "requests/s"
better = "higher"
pattern = "([0-9.]+) per second"
[design]
margin = "2%"
error_rate = 0.1
min_blocks = 2
max_blocks = 12
disturbed_blocks = "keep"
seed = 3
"#
    )
}

/// Writes plan files with these names and texts.
fn write(dir: &Path, plans: &[(&str, &str)]) {
    for (name, text) in plans {
        fs::write(dir.join(name), text).unwrap();
    }
}

#[track_caller]
fn check_refused(dir: &Path, args: &[&str], parts: &[&str]) {
    let error = refusal(&bakeoff(dir, args));
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn mistakes_in_any_plan_are_reported_before_the_first_run() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let good = plan("good", "100");
    let wrong = good.replace("baseline = \"plain\"", "baseline = \"none\"");
    let few = good.replace("max_blocks = 12", "max_blocks = 5");
    fs::create_dir(dir.join("sub")).unwrap();
    write(
        dir,
        &[
            ("a.toml", &good),
            ("b.toml", &wrong),
            ("c.toml", "title = 3"),
            ("few.toml", &few),
            ("sub/a.toml", &good),
        ],
    );
    let night = ["run", "a.toml", "b.toml", "c.toml", "--out", "night"];
    check_refused(dir, &night, &["b.toml", "c.toml", "(nothing was begun)"]);
    assert!(!dir.join("night").exists());
    let names = ["run", "a.toml", "sub/a.toml", "--out", "night"];
    check_refused(
        dir,
        &names,
        &["two plans of one name", "a.toml and sub/a.toml"],
    );
    check_refused(
        dir,
        &["run", "a.toml", "few.toml"],
        &["2 plans and no directory", "--out"],
    );
    check_refused_options(dir);
    assert!(!dir.join("night").exists());
    check_refused(dir, &["show", "sub"], &["no runs in", "sub"]);
    check_refused(dir, &["show", "none"], &["none"]);
}

/// Options that do not apply to these plans.
fn check_refused_options(dir: &Path) {
    let few = [
        "run",
        "a.toml",
        "few.toml",
        "--out",
        "night",
        "--family-wise",
    ];
    check_refused(
        dir,
        &few,
        &[
            "few.toml: --family-wise gives it an error rate of 5.000 %",
            "max_blocks = 8 or more",
        ],
    );
    let more = [
        "run",
        "a.toml",
        "few.toml",
        "--out",
        "night",
        "--more-blocks",
        "4",
    ];
    check_refused(dir, &more, &["--more-blocks belongs to one run"]);
    let gate = [
        "run",
        "a.toml",
        "few.toml",
        "--out",
        "night",
        "--fail-on",
        "defect",
    ];
    check_refused(dir, &gate, &["--fail-on defect is for one run"]);
    check_refused(
        dir,
        &["run", "a.toml", "--family-wise"],
        &["--family-wise belongs to several plans"],
    );
}

/// Verdicts are not checked, because on a busy host blocks run again and comparisons are withheld.
#[test]
fn a_night_on_this_host_runs_all_plans_and_resumes() {
    if !local_machine::can_run() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let short = |text: &str| text.replace("max_blocks = 12", "max_blocks = 2");
    let broken = plan("broken", "100").replace("echo $RATE per second", "echo nothing");
    let good = plan("<b>two arms</b>", "90");
    let plans = [("broken.toml", short(&broken)), ("good.toml", short(&good))];
    write(
        dir,
        &plans.each_ref().map(|(name, text)| (*name, text.as_str())),
    );
    let night = ["run", "broken.toml", "good.toml", "--out", "night"];
    let output = bakeoff(dir, &night);
    let text = stdout(&output);
    let log = refusal(&output);
    assert!(log.contains("1 of 2 plans failed: broken"), "{log}");
    assert!(
        log.contains("broken: failed: ") && text.contains("2 plans, 2 comparisons"),
        "{log}\n{text}"
    );
    let index = read(&dir.join("night"));
    let plans = index["plans"].as_array().unwrap();
    assert_eq!(plans[0]["state"], "failed");
    let is_over = ["complete", "undecided"].contains(&plans[1]["state"].as_str().unwrap());
    assert!(is_over, "{}", plans[1]["state"]);
    let blocks = &plans[1]["run"]["comparisons"][0]["blocks"];
    assert_eq!(blocks, 2, "{log}");
    let page = fs::read_to_string(dir.join("night/index.html")).unwrap();
    assert!(
        page.contains("href=\"good/report.html\"") && page.contains("&lt;b&gt;two arms&lt;/b&gt;")
    );
    assert!(!page.contains("<script") && dir.join("night/good/report.html").exists());
    // A complete run is not repeated; a failed one is.
    let journal = || fs::read(dir.join("night/good/journal.jsonl")).unwrap();
    let before = journal();
    let log = refusal(&bakeoff(dir, &night));
    assert_eq!(journal(), before, "{log}");
    assert!(
        log.contains("good: plan 2 of 2: is over") && log.contains("broken: failed: "),
        "{log}"
    );
}

#[test]
fn the_gate_of_a_night_has_one_error_rate_for_all_runs() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    for (name, ratio) in [("same", 1.0), ("worse", 0.9)] {
        let run = dir.join("night").join(name);
        fs::create_dir_all(&run).unwrap();
        World::new(ratio, 0.002, &[]).run(&run, |_| false).unwrap();
    }
    let gate = |rate: &str| {
        let args = [
            "show",
            "night",
            "--fail-on",
            "worse",
            "--json",
            "--error-rate",
            rate,
        ];
        let output = bakeoff(dir, &args);
        let index: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(index, read(&dir.join("night")));
        (output.status.code(), stderr(&output), index)
    };
    let (status, error, index) = gate("5%");
    assert_eq!(status, Some(1), "{error}");
    assert!(
        error.contains("worse: web-static: throughput of new is worse"),
        "{error}"
    );
    assert_eq!(index["family"], 2);
    let worse = &index["plans"][1]["run"]["comparisons"][0];
    assert_eq!(
        (&worse["verdict"], &worse["night"]["trips_gate"]),
        (&"worse".into(), &true.into())
    );
    // With so few blocks, no p-value is this small.
    let (status, error, _) = gate("0.1%");
    assert_eq!(status, Some(0), "{error}");
    fs::create_dir(dir.join("night/begun")).unwrap();
    fs::write(dir.join("night/begun/plan.toml"), plan("begun", "1")).unwrap();
    let (status, error, _) = gate("0.1%");
    assert_eq!(status, Some(3), "{error}");
    assert!(error.contains("no answer: begun: not begun"), "{error}");
}

/// Reads the index in a directory.
fn read(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("index.json")).unwrap()).unwrap()
}

/// Makes sixteen nights of a fake machine whose arm is slower from the ninth night on.
pub(crate) fn nights(dir: &Path) {
    for night in 1..=16 {
        let ratio = if night < 9 { 1.0 } else { 0.95 };
        let run = dir.join(format!("nights/2026-11-{night:02}/web-static"));
        fs::create_dir_all(&run).unwrap();
        let mut world = World::new(ratio, 0.004, &[]);
        world.machine.seed = night;
        world.run(&run, |_| false).unwrap();
    }
}

#[test]
fn a_change_is_found_in_the_trends_of_nights() {
    let temp = tempfile::tempdir().unwrap();
    nights(temp.path());
    let output = bakeoff(temp.path(), &["show", "nights"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let index = read(&temp.path().join("nights"));
    assert_eq!(index["night"], "2026-11-16");
    assert_eq!(index["plans"][0]["dir"], "2026-11-16/web-static");
    let trends = index["trends"].as_array().unwrap();
    let primary = &trends[0];
    assert_eq!(
        (&primary["arm"], &primary["along"]),
        (&"new".into(), &"nights".into())
    );
    assert_eq!(primary["points"].as_array().unwrap().len(), 16);
    let changes = primary["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(
        (&changes[0]["before"], &changes[0]["after"]),
        (&7.into(), &8.into())
    );
    assert!(text.contains("worse by 5"), "{text}");
    // The second index reuses the summaries in the indexes of single nights.
    for dir in ["nights/2026-11-01", "nights/2026-11-09", "nights"] {
        let output = bakeoff(temp.path(), &["show", dir]);
        assert_eq!(output.status.code(), Some(0));
    }
    assert_eq!(read(&temp.path().join("nights")), index);
    let some = [
        "show",
        "nights/2026-11-03/web-static",
        "nights/2026-11-12/web-static",
        "--index",
        "two",
    ];
    assert_eq!(bakeoff(temp.path(), &some).status.code(), Some(0));
    let two = read(&temp.path().join("two"));
    assert_eq!(two["plans"][0]["dir"], "../nights/2026-11-12/web-static");
    assert_eq!(two["trends"][0]["points"].as_array().unwrap().len(), 2);
}
