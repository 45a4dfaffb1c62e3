//! `bakeoff fairness`: a run that is unfair on purpose, on the command line.

use std::path::Path;
use std::process::{Command, Output};

use expect_test::expect_file;

use crate::simulated_lab::{PLAN, World};

fn bakeoff(dir: &Path, words: &[&str]) -> Output {
    let mut bakeoff = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    bakeoff.args(words).current_dir(dir).output().unwrap()
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

/// A finished run of a plan that tunes one arm.
fn one_sided(dir: &Path) {
    let kernel = "kernel = \"debian:trixie-backports/7.2\"";
    let plan = PLAN.replace(kernel, &format!("{kernel}\ncmdline = \"quiet\""));
    assert_ne!(plan, PLAN);
    let world = World::new(1.2, 0.001, &[]);
    world.run_text(&dir.join("run"), &plan, |_| false).unwrap();
}

#[test]
fn the_page_is_what_the_checks_say() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fairness.md");
    expect_file![page].assert_eq(&report::fairness_page());
}

#[test]
fn an_unfair_run_has_no_headline_until_it_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    one_sided(dir.path());
    let judged = bakeoff(dir.path(), &["judge", "run", "--fail-on", "worse"]);
    let text = said(&judged);
    assert_eq!(judged.status.code(), Some(2), "{text}");
    assert!(
        text.contains("withheld: ") && text.contains("one-sided-tuning"),
        "{text}"
    );
    assert!(!text.contains("serves "), "{text}");
    let found = bakeoff(dir.path(), &["fairness", "run", "--fail-on", "violation"]);
    let text = said(&found);
    assert_eq!(found.status.code(), Some(1), "{text}");
    assert!(
        text.contains("to mend it: give each arm settings"),
        "{text}"
    );
    let refused = |wrong: &str, why: &str| {
        let refused = bakeoff(dir.path(), &["fairness", "run", "--accept", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert_eq!(
            said(&refused),
            format!("bakeoff: --accept {wrong}: {why}\n")
        );
    };
    refused(
        "one-sided=x",
        "no such check: \"one-sided\" (bakeoff fairness --list names all)",
    );
    for wrong in [
        "one-sided-tuning",
        "one-sided-tuning=",
        "one-sided-tuning= ",
    ] {
        let why = "no reason (write --accept one-sided-tuning='why it is fair all the same')";
        refused(wrong, why);
    }
    assert!(!dir.path().join("run/accepted.json").exists());
    let accept = "one-sided-tuning=quiet changes nothing";
    let accepted = bakeoff(dir.path(), &["fairness", "run", "--accept", accept]);
    let text = said(&accepted);
    assert!(accepted.status.success(), "{text}");
    assert!(text.contains("accepted: quiet changes nothing"), "{text}");
    let judged = bakeoff(dir.path(), &["judge", "run"]);
    assert!(
        said(&judged).contains("better: new serves"),
        "{}",
        said(&judged)
    );
}

#[test]
fn what_could_be_pinned_is_a_table_of_a_plan() {
    let dir = tempfile::tempdir().unwrap();
    one_sided(dir.path());
    let pinned = bakeoff(dir.path(), &["fairness", "run", "--pin"]);
    let text = said(&pinned);
    assert!(pinned.status.success(), "{text}");
    let read: toml::Table = text.parse().unwrap();
    assert!(read.keys().all(|key| key == "pinned"), "{text}");
    let json = bakeoff(dir.path(), &["fairness", "run", "--pin", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["pinned"], text);
}

#[test]
fn a_run_that_accepts_what_there_is_not_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    for wrong in ["memery=x", "memory", "memory="] {
        let refused = bakeoff(dir.path(), &["run", "plan.toml", "--accept", wrong]);
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(
            text.starts_with(&format!("bakeoff: --accept {wrong}: no ")),
            "{text}"
        );
        assert!(!dir.path().join("runs").exists());
    }
}

#[test]
fn a_run_without_facts_is_not_known_to_be_fair() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.2, 0.001, &[]);
    world.run(&dir.path().join("run"), |_| false).unwrap();
    for trial in dir.path().join("run/trials").read_dir().unwrap() {
        let facts = trial.unwrap().path().join("facts.json");
        if facts.exists() {
            std::fs::remove_file(facts).unwrap();
        }
    }
    let told = bakeoff(dir.path(), &["fairness", "run"]);
    let text = said(&told);
    assert!(told.status.success(), "{text}");
    assert!(
        text.contains("memory: not known") && text.contains("missing: /proc/meminfo:MemTotal"),
        "{text}"
    );
    let asked = bakeoff(dir.path(), &["fairness", "run", "--fail-on", "violation"]);
    let text = said(&asked);
    assert_eq!(asked.status.code(), Some(2), "{text}");
    assert!(
        text.contains("bakeoff: --fail-on violation: no answer: no trial has facts, so "),
        "{text}"
    );
}
