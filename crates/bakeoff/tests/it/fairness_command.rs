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
    for wrong in ["one-sided=x", "one-sided-tuning", "one-sided-tuning="] {
        let refused = bakeoff(dir.path(), &["fairness", "run", "--accept", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
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
