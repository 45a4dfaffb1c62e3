//! Golden tests: `judge` prints the same terminal text, Markdown and JSON of stored runs as before.
//!
//! Each directory in `tests/golden` holds a run (plan, journal, records, facts) and, in `expected`, what `judge` prints of it.
//! `UPDATE_EXPECT=1 cargo test --workspace golden` rewrites `expected`; review the difference. It also makes simulated runs
//! that are missing, and keeps those that exist. `real` is a run of two kernels. Most facts and per-second figures were removed.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use machine::fake::Behaviour;
use record::hash::sha256;
use record::rundir::TrialRecord;
use serde_json::Value;

use crate::simulated_lab::{PLAN, World, disturbed_world, load_run, read_plan};

/// Columns of the terminal text.
const WIDTH: usize = 100;

/// Digits of numbers in JSON. More would differ between CPUs, whose C libraries round logarithms
/// differently.
const DIGITS: u32 = 9;

/// The directory of a stored run.
pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Judges the stored run `name` and compares the texts. `make` makes the run if it is missing.
#[track_caller]
fn check(name: &str, make: impl Fn(&Path)) {
    let dir = golden(name);
    if !dir.exists() && std::env::var_os("UPDATE_EXPECT").is_some() {
        make(&dir);
        compact_run(&dir);
    }
    let run = load_run(&dir);
    let judgement = judge::judge(&run);
    let sentences = sentences(&serde_json::to_value(&judgement).unwrap(), "");
    assert_eq!(sentences, Vec::<String>::new(), "only `report` makes them");
    let expected = dir.join("expected");
    fs::create_dir_all(&expected).unwrap();
    let mut summary = judge::report::json(&run, &judgement);
    let details = summary["details"].take();
    for (name, mut json) in [("verdict.json", summary), ("judgement.json", details)] {
        round(&mut json);
        let json = serde_json::to_string_pretty(&json).unwrap() + "\n";
        expect_file![expected.join(name)].assert_eq(&json);
    }
    expect_file![expected.join("terminal.txt")].assert_eq(&judge::report::terminal(
        &run,
        &judgement,
        &[],
        WIDTH,
    ));
    expect_file![expected.join("report.md")].assert_eq(&judge::report::markdown(
        &run,
        &judgement,
        &[],
    ));
    let options = judge::report::MailOptions {
        reporter: None,
        url: None,
        culprit: None,
        bundle: None,
    };
    expect_file![expected.join("mail.txt")].assert_eq(&judge::report::mail(
        &run,
        &judgement,
        &[],
        &options,
    ));
    expect_file![expected.join("card.svg")].assert_eq(&judge::report::card(&run, &judgement));
    check_page_is_self_contained(&judge::report::html(&run, &judgement, &[]));
}

/// The page is small and loads nothing.
#[track_caller]
fn check_page_is_self_contained(page: &str) {
    const MOST_BYTES: usize = 150_000;
    assert!(page.len() < MOST_BYTES, "{} bytes", page.len());
    for part in [
        "<script", "<link", "<img", "<iframe", "src=", "url(", "@import",
    ] {
        assert!(!page.contains(part), "{part}");
    }
    let mut links = page.split(" href=\"").skip(1);
    assert!(
        links.all(|link| link.starts_with('#')),
        "a link leaves the page"
    );
}

/// Fields of a judgement that quote a guest or a server.
const QUOTED: [&str; 6] = ["fact", "values", "kernel", "server", "last", "value"];

/// Strings with several words in a judgement, except quoted ones.
fn sentences(value: &Value, key: &str) -> Vec<String> {
    match value {
        _ if QUOTED.contains(&key) => Vec::new(),
        Value::String(text) if text.contains(' ') => vec![format!("{key}: {text}")],
        Value::Array(values) => values
            .iter()
            .flat_map(|value| sentences(value, key))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, value)| sentences(value, key))
            .collect(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Rounds all floating-point numbers.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
                let rounded = format!("{float:.*e}", DIGITS as usize - 1);
                *value = Value::from(rounded.parse::<f64>().unwrap());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Removes files that neither `judge` nor `report` reads, and white space in records.
fn compact_run(dir: &Path) {
    fs::remove_file(dir.join("lock")).unwrap();
    let journal = dir.join("journal.jsonl");
    let mut entries = fs::read_to_string(&journal).unwrap();
    for trial in dir.join("trials").read_dir().unwrap() {
        let trial = trial.unwrap().path();
        for name in ["samples.jsonl", "console.log"] {
            let path = trial.join(name);
            if path.exists() {
                fs::remove_file(path).unwrap();
            }
        }
        let record = fs::read(trial.join("trial.json")).unwrap();
        let parsed: TrialRecord = serde_json::from_slice(&record).unwrap();
        let compact = serde_json::to_vec(&parsed).unwrap();
        fs::write(trial.join("trial.json"), &compact).unwrap();
        entries = entries.replace(&sha256(&record), &sha256(&compact));
    }
    fs::write(journal, entries).unwrap();
}

/// Makes a simulated run of a plan.
fn run(dir: &Path, text: &str, mut world: World) {
    world.plan = read_plan(text);
    world.run_text(dir, text, |_| false).unwrap();
}

#[test]
fn a_loss_with_a_disturbed_block() {
    check("worse", |dir| run(dir, PLAN, disturbed_world(&[4])));
}

#[test]
fn noise_that_leaves_the_verdict_undecided() {
    check("undecided", |dir| {
        run(dir, PLAN, World::new(1.02, 0.20, &[]));
    });
}

#[test]
fn an_arm_that_never_boots() {
    check("failed", |dir| {
        let boots = [Behaviour::Panics; 100];
        run(dir, PLAN, World::new(1.0, 0.001, &boots));
    });
}

#[test]
fn two_workloads_and_a_service_that_fails_once() {
    check("workloads", |dir| {
        let (plan, design) = PLAN.split_once("[design]").unwrap();
        let workload = plan.split_once("[[workload]]").unwrap().1;
        let second = workload.replace("apache", "nginx");
        let text = format!("{plan}[[workload]]\nname = \"nginx\"{second}[design]{design}");
        let boots = [Behaviour::Measures, Behaviour::ServiceFails];
        run(dir, &text, World::new(1.0, 0.001, &boots));
    });
}

#[test]
fn two_real_kernels() {
    check("real", |_| panic!("a real run is not made by a test"));
}
