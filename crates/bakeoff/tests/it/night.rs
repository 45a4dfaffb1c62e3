//! Several plans in one command, and the index of what they come to.
//!
//! Runs on this host need root and cgroup2; where one is missing they say that they were skipped. All else is of fake machines.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::local_machine;
use crate::program::bakeoff;
use crate::simulated_lab::World;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A plan of this host whose trials take no time: an arm's figure is what its environment says.
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

/// Plan files of these names and texts.
fn write(dir: &Path, plans: &[(&str, &str)]) {
    for (name, text) in plans {
        fs::write(dir.join(name), text).unwrap();
    }
}

#[track_caller]
fn check_refused(dir: &Path, words: &[&str], says: &[&str]) {
    let output = bakeoff(dir, words);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in says {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

#[test]
fn what_is_wrong_with_any_plan_is_told_before_one_begins() {
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
    check_refused(dir, &["index", "sub"], &["no runs in", "sub"]);
    check_refused(dir, &["index", "none"], &["none"]);
}

/// Options that do not go with these plans.
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

/// On a busy host blocks are run again and comparisons are withheld, so that nothing is asked of verdicts here.
#[test]
fn a_night_on_this_host_runs_all_plans_and_goes_on() {
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
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(2), "{told}\n{text}");
    assert!(told.contains("1 of 2 plans failed: broken"), "{told}");
    assert!(
        told.contains("broken: failed: ") && text.contains("2 plans, 2 comparisons"),
        "{told}"
    );
    let index = read(&dir.join("night"));
    let plans = index["plans"].as_array().unwrap();
    assert_eq!(plans[0]["state"], "failed");
    let is_over = ["complete", "undecided"].contains(&plans[1]["state"].as_str().unwrap());
    assert!(is_over, "{}", plans[1]["state"]);
    let blocks = &plans[1]["run"]["comparisons"][0]["blocks"];
    assert_eq!(blocks, 2, "{told}");
    let page = fs::read_to_string(dir.join("night/index.html")).unwrap();
    assert!(
        page.contains("href=\"good/report.html\"") && page.contains("&lt;b&gt;two arms&lt;/b&gt;")
    );
    assert!(!page.contains("<script") && dir.join("night/good/report.html").exists());
    // What is over is not run again, and what failed is.
    let journal = || fs::read(dir.join("night/good/journal.jsonl")).unwrap();
    let before = journal();
    let again = bakeoff(dir, &night);
    let told = said(&again);
    assert_eq!(
        (again.status.code(), journal()),
        (Some(2), before),
        "{told}"
    );
    assert!(
        told.contains("good: plan 2 of 2: is over") && told.contains("broken: failed: "),
        "{told}"
    );
}

#[test]
fn the_gate_of_a_night_holds_one_rate_for_all_of_its_runs() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    for (name, ratio) in [("same", 1.0), ("worse", 0.9)] {
        let run = dir.join("night").join(name);
        fs::create_dir_all(&run).unwrap();
        World::new(ratio, 0.002, &[]).run(&run, |_| false).unwrap();
    }
    let gate = |rate: &str| {
        let words = [
            "index",
            "night",
            "--fail-on",
            "worse",
            "--json",
            "--error-rate",
            rate,
        ];
        let output = bakeoff(dir, &words);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told, read(&dir.join("night")));
        (output.status.code(), said(&output), told)
    };
    let (status, told, index) = gate("5%");
    assert_eq!(status, Some(1), "{told}");
    assert!(
        told.contains("worse: web-static: throughput of new is worse"),
        "{told}"
    );
    assert_eq!(index["family"], 2);
    let worse = &index["plans"][1]["run"]["comparisons"][0];
    assert_eq!(
        (&worse["verdict"], &worse["night"]["trips_gate"]),
        (&"worse".into(), &true.into())
    );
    // Of so few blocks no p-value is so small.
    let (status, told, _) = gate("0.1%");
    assert_eq!(status, Some(0), "{told}");
    fs::create_dir(dir.join("night/begun")).unwrap();
    fs::write(dir.join("night/begun/plan.toml"), plan("begun", "1")).unwrap();
    let (status, told, _) = gate("0.1%");
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("no answer: begun: not begun"), "{told}");
}

/// The index in a directory.
fn read(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("index.json")).unwrap()).unwrap()
}

/// Nights of a fake machine whose arm gets slower with the ninth.
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
fn nights_have_trends_and_a_change_is_found() {
    let temp = tempfile::tempdir().unwrap();
    nights(temp.path());
    let output = bakeoff(temp.path(), &["index", "nights"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
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
    // Summaries of nights that have an index of their own are taken from it.
    for night in ["nights/2026-11-01", "nights/2026-11-09"] {
        assert_eq!(
            bakeoff(temp.path(), &["index", night]).status.code(),
            Some(0)
        );
    }
    assert_eq!(
        bakeoff(temp.path(), &["index", "nights"]).status.code(),
        Some(0)
    );
    assert_eq!(read(&temp.path().join("nights")), index);
    let some = [
        "index",
        "nights/2026-11-03/web-static",
        "nights/2026-11-12/web-static",
        "--out",
        "two",
    ];
    assert_eq!(bakeoff(temp.path(), &some).status.code(), Some(0));
    let two = read(&temp.path().join("two"));
    assert_eq!(two["plans"][0]["dir"], "../nights/2026-11-12/web-static");
    assert_eq!(two["trends"][0]["points"].as_array().unwrap().len(), 2);
}
