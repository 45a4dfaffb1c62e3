//! Mindcraft's comparison of April 1999 with its faults, made on purpose: the gate names each of them.
//!
//! Real kernels in real guests; needs what `real_guests` needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::real_guests::can_boot;

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

/// A plan of this repository with as few blocks as can be judged, and no trial that fails because the host is busy.
fn shortened(name: &str) -> String {
    let text = std::fs::read_to_string(plans().join(name)).unwrap();
    let edits = [
        ("min_blocks = 4", "min_blocks = 2"),
        ("max_blocks = 6", "max_blocks = 2"),
        (
            "clock = \"auto\"",
            "clock = \"instructions\"\nboot_timeout = \"1h\"\nsilence = \"1h\"",
        ),
    ];
    edits.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{name} has no {from:?}");
        text.replacen(from, to, 1)
    })
}

fn bakeoff(dir: &Path, words: &[&str]) -> Output {
    let mut bakeoff = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    bakeoff.args(words).current_dir(dir).output().unwrap()
}

/// Runs the plan; what all checks found, by outcome, and what `run` printed.
fn found(plan: &str) -> (impl Fn(&str) -> BTreeSet<String>, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), shortened(plan)).unwrap();
    let ran = bakeoff(dir.path(), &["run", "plan.toml", "--jobs", "1"]);
    let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let told = bakeoff(dir.path(), &["fairness", "runs/plan", "--json"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let of = move |outcome: &str| {
        let findings = told["fairness"].as_array().unwrap();
        let ended = |one: &&Value| one["outcome"] == outcome;
        let ids = findings.iter().filter(ended);
        ids.map(|one| one["id"].as_str().unwrap().to_string())
            .collect()
    };
    (of, said)
}

fn assert_has(found: &BTreeSet<String>, ids: &[&str]) {
    for id in ids {
        assert!(found.contains(*id), "{id} is not among {found:?}");
    }
}

#[test]
fn each_fault_of_1999_is_named_by_its_own_check() {
    if !can_boot() {
        return;
    }
    let (of, said) = found("mindcraft-1999-unfair.toml");
    assert_has(
        &of("violation"),
        &[
            "descriptors",      // 24 open files for 48 clients
            "failed-requests",  // of those who wait for one of them
            "limits",           // one arm's alone
            "memory",           // a quarter
            "one-sided-tuning", // the other arm's alone
            "server-stressed",  // the clients are the limit
        ],
    );
    assert_has(
        &of("declared"),
        &[
            "command-line",
            "server-configuration",
            "socket-buffers",
            "static-pages",
        ],
    );
    assert!(said.contains("withheld: "), "{said}");
    assert!(!said.contains("7.2 serves"), "{said}");
}

/// The same question without them.
#[test]
fn the_question_of_1999_can_be_asked_fairly() {
    if std::env::var_os("SLOW_TESTS").is_none() {
        skip::skip("slow tests were not asked for: SLOW_TESTS=1");
        return;
    }
    if !can_boot() {
        return;
    }
    let (of, said) = found("mindcraft-1999-fair.toml");
    assert_eq!(of("violation"), BTreeSet::new(), "{said}");
    assert!(!of("declared").contains("static-pages"), "{said}");
}
