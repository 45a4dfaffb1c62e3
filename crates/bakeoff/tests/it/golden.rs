//! Stored run directories, judged as they were judged before: the same terminal text, Markdown and JSON.
//!
//! Each folder of `tests/golden` holds a run (plan, journal, records, facts) and beside it, in `expected`, what `judge` says of
//! it. `UPDATE_EXPECT=1 cargo test --workspace golden` writes what is said now; the difference is then looked at. It
//! also makes a simulated run that is missing; runs that are there are not made anew. `real` is a run of two kernels. Most facts and second-by-second figures were taken out of all.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use machine::fake::Behaviour;
use plan::Checks;
use record::hash::sha256;
use record::rundir;
use record::rundir::TrialRecord;
use serde_json::Value;

use crate::simulated_lab::{PLAN, World, robbed};

/// Columns of the terminal text.
const WIDTH: usize = 100;

/// Digits of numbers in JSON: fewer than differ between CPUs, whose C libraries round logarithms in different ways.
const DIGITS: u32 = 9;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Judges the stored run `name` and compares; `make` made it.
#[track_caller]
fn check(name: &str, make: impl Fn(&Path)) {
    let dir = golden(name);
    if !dir.exists() && std::env::var_os("UPDATE_EXPECT").is_some() {
        make(&dir);
        keep_what_is_judged(&dir);
    }
    let run = rundir::load(&dir, &workload::check).unwrap();
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
    stands_alone(&judge::report::html(&run, &judgement, &[]));
}

/// The page is small, and holds all that it shows.
#[track_caller]
fn stands_alone(page: &str) {
    const MOST_BYTES: usize = 300_000;
    assert!(page.len() < MOST_BYTES, "{} bytes", page.len());
    let fetched = [
        "<script", "<link", "<img", "<iframe", "src=", "url(", "@import",
    ];
    for one in fetched {
        assert!(!page.contains(one), "{one}");
    }
    let mut links = page.split(" href=\"").skip(1);
    assert!(
        links.all(|link| link.starts_with('#')),
        "a link leaves the page"
    );
}

/// Texts of others in a judgement: what a guest or a server said.
const QUOTED: [&str; 6] = ["fact", "values", "kernel", "server", "last", "value"];

/// Strings of more than one word in the data of a judgement, but for those that it quotes.
fn sentences(value: &Value, key: &str) -> Vec<String> {
    match value {
        _ if QUOTED.contains(&key) => Vec::new(),
        Value::String(text) if text.contains(' ') => vec![format!("{key}: {text}")],
        Value::Array(values) => values.iter().flat_map(|one| sentences(one, key)).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, one)| sentences(one, key))
            .collect(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Rounds all numbers that are not whole.
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

/// Takes out of a run what neither `judge` nor `report` reads, and blanks that only people read.
fn keep_what_is_judged(dir: &Path) {
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
        let short = serde_json::to_vec(&serde_json::from_slice::<TrialRecord>(&record).unwrap());
        let short = short.unwrap();
        fs::write(trial.join("trial.json"), &short).unwrap();
        entries = entries.replace(&sha256(&record), &sha256(&short));
    }
    fs::write(journal, entries).unwrap();
}

/// Makes a run of another plan than the usual one.
fn run(dir: &Path, text: &str, mut world: World) {
    let checks = Checks::of_the_past(&workload::check);
    world.plan = plan::read("plan.toml", text, Path::new(""), checks).unwrap();
    world.run_text(dir, text, |_| false).unwrap();
}

#[test]
fn a_loss_with_a_disturbed_block() {
    check("worse", |dir| run(dir, PLAN, robbed(&[4])));
}

#[test]
fn noise_that_leaves_all_open() {
    let noisy = || World::new(1.02, 0.20, &[]);
    check("undecided", |dir| run(dir, PLAN, noisy()));
}

#[test]
fn an_arm_that_never_boots() {
    let dead = [Behaviour::Panics; 100];
    let dying = || World::new(1.0, 0.001, &dead);
    check("failed", |dir| run(dir, PLAN, dying()));
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
fn two_kernels_measured_in_earnest() {
    check("real", |_| panic!("a real run is not made by a test"));
}
