//! Runs with profiles: verdict and report explain the difference. If profiles are damaged, only the
//! explanation is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use profiler::profile::{Count, Kind, Node, Profile, Window};
use record::hash::sha256;
use record::rundir::{PROFILE, ProfileNote, TrialRecord, WHY};
use serde_json::Value;

use crate::fairness_command::one_sided_plan;
use crate::program::{command, stderr, stdout};
use crate::simulated_lab::{PLAN, World, load_run};

/// A simplified profile of a trial: arm `new` copies less.
fn profile(arm: &str, trial: u32) -> Profile {
    let node = |parent, kind, name: &str| Node {
        parent,
        kind,
        name: name.into(),
        image: String::new(),
    };
    let count = |node, instructions| Count {
        node,
        instructions,
        strings: profiler::profile::StringCounts::default(),
        calls: 5000,
    };
    let copied = if arm == "new" { 4_000_000 } else { 9_000_000 };
    let counts = vec![
        count(2, 20_000_000 + u64::from(trial)),
        count(3, copied + u64::from(trial % 3)),
    ];
    Profile {
        nodes: vec![
            node(0, Kind::All, ""),
            node(0, Kind::Task, "apache2"),
            node(1, Kind::Kernel, "tcp_sendmsg"),
            node(2, Kind::Kernel, "rep_movs_alternative"),
        ],
        windows: vec![Window {
            instructions: 20_000_000 + copied,
            counts,
            // The fake machine's window.
            ran: vec![(1, 1_000_000_000)],
            ..Window::default()
        }],
        lacks: Vec::new(),
        sampling: None,
    }
}

/// Makes a simulated run with profiles.
fn profiled(dir: &Path) {
    profiled_by(dir, PLAN, profiler::format::write);
}

/// Makes a simulated run of a plan, with profiles in the format of `write`.
pub(crate) fn profiled_by(dir: &Path, plan: &str, write: fn(&Profile) -> Vec<u8>) {
    let world = World::new(1.2, 0.002, &[]);
    world.run_text(dir, plan, |_| false).unwrap();
    let journal = dir.join("journal.jsonl");
    let mut entries = fs::read_to_string(&journal).unwrap();
    for trial in dir.join("trials").read_dir().unwrap() {
        let trial = trial.unwrap().path();
        let path = trial.join("trial.json");
        let before = fs::read(&path).unwrap();
        let mut record: TrialRecord = serde_json::from_slice(&before).unwrap();
        let profile = profile(&record.trial.arm, record.trial.number);
        let bytes = write(&profile);
        record.profile = Some(ProfileNote::Kept {
            sha256: sha256(&bytes),
            busy_instructions: profile.busy_instructions(),
        });
        fs::write(trial.join(PROFILE), bytes).unwrap();
        let after = serde_json::to_vec(&record).unwrap();
        fs::write(path, &after).unwrap();
        entries = entries.replace(&sha256(&before), &sha256(&after));
    }
    fs::write(journal, entries).unwrap();
    load_run(dir);
}

/// Standard output and standard error of a command on the run. The status must be 0.
fn bakeoff(args: &[&str], dir: &Path) -> (String, String) {
    let output = command(dir, args).arg(dir).output().unwrap();
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{error}");
    (stdout(&output), error)
}

fn page(dir: &Path) -> String {
    fs::read_to_string(dir.join("report.html")).unwrap()
}

/// The text on one line, with single spaces.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn verdict_and_report_explain_the_difference() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled(dir);
    let (text, error) = bakeoff(&["show"], dir);
    assert_eq!(error, "");
    let cause = "why: copying saves";
    assert!(flat(&text).contains(cause), "{text}");
    assert!(!dir.join(WHY).exists(), "judging changes nothing");
    let (text, _) = bakeoff(&["show", "--markdown"], dir);
    assert!(text.contains("\n**why** - copying saves"), "{text}");
    bakeoff(&["show", "--report"], dir);
    let kept: Value = serde_json::from_slice(&fs::read(dir.join(WHY)).unwrap()).unwrap();
    let (json, _) = bakeoff(&["why", "--json"], dir);
    assert_eq!(kept, serde_json::from_str::<Value>(&json).unwrap());
    assert_eq!(kept[0]["tree"]["nodes"][1]["name"], "tcp_sendmsg");
    let page = page(dir);
    assert!(page.contains("copying saves") && page.contains("class=\"tree\""));
}

#[test]
fn a_damaged_profile_removes_only_the_explanation() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled(dir);
    let (whole, _) = bakeoff(&["show"], dir);
    let file = |number: u32| dir.join(format!("trials/{number:03}")).join(PROFILE);
    fs::write(file(1), "no profile").unwrap();
    let (_, error) = bakeoff(&["show"], dir);
    assert!(
        error.contains("not the profile that the trial wrote") && error.contains("(trial 001)"),
        "{error}"
    );
    let record = fs::read(dir.join("trials/001/trial.json")).unwrap();
    let record: TrialRecord = serde_json::from_slice(&record).unwrap();
    for arm in ["old", "new"] {
        let (_, error) = bakeoff(&["why", "--within", arm], dir);
        let is_reported = error.contains("(trial 001)");
        assert_eq!(is_reported, arm == record.trial.arm, "{arm}: {error}");
    }
    fs::remove_file(file(2)).unwrap();
    let (json, _) = bakeoff(&["why", "--json"], dir);
    let explained: Value = serde_json::from_str(&json).unwrap();
    let mut lost = BTreeMap::new();
    for profile in explained[0]["lost"].as_array().unwrap() {
        lost.insert(profile["trial"].as_u64().unwrap(), &profile["reason"]);
    }
    assert_eq!((lost[&1], lost[&2]), (&"damaged".into(), &"gone".into()));
    let mut number = 3;
    while file(number).exists() {
        fs::remove_file(file(number)).unwrap();
        number += 1;
    }
    assert!(number > 10, "all trials have a profile");
    let (text, error) = bakeoff(&["show"], dir);
    assert!(
        error.contains("cannot read") && error.contains("put the trials' files back from a copy"),
        "{error}"
    );
    let (before, _) = whole.split_once("    why: ").unwrap();
    assert!(
        text.starts_with(before) && !text.contains("why: "),
        "{text}"
    );
    bakeoff(&["show", "--report"], dir);
    assert_eq!(fs::read(dir.join(WHY)).unwrap(), b"[]");
    assert!(!page(dir).contains("<script"));
}

#[test]
fn an_explanation_reports_a_withheld_headline() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled_by(dir, &one_sided_plan(), profiler::format::write);
    let (text, _) = bakeoff(&["why"], dir);
    let note = "the headline of this run is withheld, because the comparison is not fair: one-sided-tuning";
    assert!(flat(&text).contains(note), "{text}");
    let (json, _) = bakeoff(&["why", "--json"], dir);
    let explained: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(explained[0]["failed_checks"][0], "one-sided-tuning");
    let accepted = ["show", "--accept", "one-sided-tuning=a test"];
    bakeoff(&accepted, dir);
    let (text, _) = bakeoff(&["why"], dir);
    assert!(!text.contains("withheld"), "{text}");
}

#[test]
fn profiles_of_a_newer_bakeoff_are_reported_with_a_remedy() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled_by(dir, PLAN, |_| {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(b"bkprofil\x09".as_slice(), level)
    });
    let (text, error) = bakeoff(&["show"], dir);
    assert!(
        error.contains("profile of a newer bakeoff: version 9, and this one reads 2"),
        "{error}"
    );
    assert!(
        error.contains("explain it with the bakeoff that has written it, or a later one"),
        "{error}"
    );
    assert!(!text.contains("why: "), "{text}");
}
