//! Runs whose trials were profiled: verdict and report say why, and lose nothing but that where profiles are damaged.

use std::fs;
use std::path::Path;
use std::process::Command;

use profiler::profile::{Count, Kind, Node, Profile, Window};
use record::hash::sha256;
use record::rundir;
use record::rundir::{PROFILE, ProfileNote, TrialRecord, WHY};
use serde_json::Value;

use crate::fairness_command::one_sided_plan;
use crate::simulated_lab::{PLAN, World};

/// What a trial of an arm executed, much simplified: the new one copies less.
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

/// A simulated run, its trials with profiles.
fn profiled(dir: &Path) {
    profiled_by(dir, PLAN, profiler::format::write);
}

/// A simulated run of a plan, whose profiles are written so.
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
    rundir::load(dir, &workload::check).unwrap();
}

/// What a command says of the run: standard output, standard error.
fn said(words: &[&str], dir: &Path) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(words)
        .arg(dir)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let error = text(output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    (text(output.stdout), error)
}

fn page(dir: &Path) -> String {
    fs::read_to_string(dir.join("report.html")).unwrap()
}

/// Ends of lines and spaces make no difference.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn verdict_and_report_say_why() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled(dir);
    let (text, error) = said(&["judge"], dir);
    assert_eq!(error, "");
    let cause = "why: copying saves";
    assert!(flat(&text).contains(cause), "{text}");
    assert!(!dir.join(WHY).exists(), "judging changes nothing");
    let (text, _) = said(&["judge", "--markdown"], dir);
    assert!(text.contains("\n**why** - copying saves"), "{text}");
    said(&["report"], dir);
    let kept: Value = serde_json::from_slice(&fs::read(dir.join(WHY)).unwrap()).unwrap();
    let (json, _) = said(&["why", "--json"], dir);
    assert_eq!(kept, serde_json::from_str::<Value>(&json).unwrap());
    assert_eq!(kept[0]["tree"]["nodes"][1]["name"], "tcp_sendmsg");
    let page = page(dir);
    assert!(page.contains("copying saves") && page.contains("class=\"tree\""));
}

#[test]
fn a_damaged_profile_costs_the_sentence_at_most() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled(dir);
    let (whole, _) = said(&["judge"], dir);
    let file = |number: u32| dir.join(format!("trials/{number:03}")).join(PROFILE);
    fs::write(file(1), "no profile").unwrap();
    let (_, error) = said(&["judge"], dir);
    assert!(
        error.contains("not the profile that the trial wrote") && error.contains("(trial 001)"),
        "{error}"
    );
    let record = fs::read(dir.join("trials/001/trial.json")).unwrap();
    let record: TrialRecord = serde_json::from_slice(&record).unwrap();
    for arm in ["old", "new"] {
        let (_, error) = said(&["why", "--within", arm], dir);
        let is_told = error.contains("(trial 001)");
        assert_eq!(is_told, arm == record.trial.arm, "{arm}: {error}");
    }
    fs::remove_file(file(2)).unwrap();
    let (json, _) = said(&["why", "--json"], dir);
    let explained: Value = serde_json::from_str(&json).unwrap();
    let lost = explained[0]["lost"].as_array().unwrap().iter();
    let lost: Vec<(u64, &str)> = lost
        .map(|one| {
            (
                one["trial"].as_u64().unwrap(),
                one["reason"].as_str().unwrap(),
            )
        })
        .collect();
    assert!(
        lost.contains(&(1, "damaged")) && lost.contains(&(2, "gone")),
        "{lost:?}"
    );
    let mut number = 3;
    while file(number).exists() {
        fs::remove_file(file(number)).unwrap();
        number += 1;
    }
    assert!(number > 10, "all trials have a profile");
    let (text, error) = said(&["judge"], dir);
    assert!(
        error.contains("cannot read") && error.contains("put the trials' files back from a copy"),
        "{error}"
    );
    let (before, _) = whole.split_once("    why: ").unwrap();
    assert!(
        text.starts_with(before) && !text.contains("why: "),
        "{text}"
    );
    said(&["report"], dir);
    assert_eq!(fs::read(dir.join(WHY)).unwrap(), b"[]");
    assert!(!page(dir).contains("<script"));
}

#[test]
fn an_explanation_says_that_the_headline_is_withheld() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled_by(dir, &one_sided_plan(), profiler::format::write);
    let (text, _) = said(&["why"], dir);
    let note = "the headline of this run is withheld, because the comparison is not fair: one-sided-tuning";
    assert!(flat(&text).contains(note), "{text}");
    let (json, _) = said(&["why", "--json"], dir);
    let explained: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(explained[0]["violations"][0], "one-sided-tuning");
    let accepted = ["fairness", "--accept", "one-sided-tuning=a test"];
    said(&accepted, dir);
    let (text, _) = said(&["why"], dir);
    assert!(!text.contains("withheld"), "{text}");
}

#[test]
fn profiles_of_a_newer_bakeoff_are_told_with_the_remedy() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    profiled_by(dir, PLAN, |_| {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(b"bkprofil\x09".as_slice(), level)
    });
    let (text, error) = said(&["judge"], dir);
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
