//! Mindcraft's comparison of April 1999 with its faults. The fairness checks name each fault, and
//! before any boot if the plan shows it. Tests with real guests need what `real_guests` needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{all_output, bakeoff, stderr, stdout};
use crate::real_guests::{PLAN, can_boot};

/// Checks whose differences the plan of 1999 declares.
const ACCEPTED: [&str; 4] = [
    "command-line",
    "server-configuration",
    "socket-buffers",
    "static-pages",
];

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans")
}

/// A plan of this repository with the fewest blocks that can be judged, and with long limits for a
/// busy host.
fn shortened(name: &str) -> String {
    let text = std::fs::read_to_string(plans().join(name)).unwrap();
    let edits = [
        ("min_blocks = 4", "min_blocks = 2"),
        ("max_blocks = 6", "max_blocks = 2"),
        (
            "clock = \"auto\"",
            "clock = \"instructions\"\nboot_timeout = \"10m\"\nsilence = \"10m\"",
        ),
    ];
    edits.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{name} has no {from:?}");
        text.replacen(from, to, 1)
    })
}

/// Runs the plan; returns the ids of its checks by outcome, and the output of `run`.
fn run_and_check(plan: &str) -> (BTreeMap<String, BTreeSet<String>>, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), shortened(plan)).unwrap();
    let run = bakeoff(dir.path(), &["run", "plan.toml", "--jobs", "1"]);
    let text = all_output(&run);
    assert_eq!(run.status.code(), Some(0), "{text}");
    let report = bakeoff(dir.path(), &["show", "runs/plan", "--fairness", "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let mut by_outcome = BTreeMap::<String, BTreeSet<String>>::new();
    for finding in report["fairness"].as_array().unwrap() {
        let text = |key: &str| finding[key].as_str().unwrap().to_string();
        by_outcome
            .entry(text("outcome"))
            .or_default()
            .insert(text("id"));
    }
    (by_outcome, text)
}

fn assert_has(ids: &BTreeSet<String>, expected: &[&str]) {
    for id in expected {
        assert!(ids.contains(*id), "{id} is not among {ids:?}");
    }
}

/// Two faults are missing here, because only a measurement shows them: failed requests, and clients
/// as the limit.
#[test]
fn check_names_the_faults_that_the_plan_of_1999_shows() {
    let plan = plans().join("mindcraft-1999-unfair.toml");
    let report = stdout(&bakeoff(&plans(), &["check", plan.to_str().unwrap()]));
    let ids = |outcome: &str| -> BTreeSet<String> {
        let lines = report
            .lines()
            .filter_map(|line| line.trim().strip_prefix(outcome));
        let ids = lines.filter_map(|line| line.trim().split(':').next());
        ids.map(String::from).collect()
    };
    let failed = ["descriptors", "limits", "memory", "one-sided-tuning"];
    assert_eq!(ids("failed"), failed.map(String::from).into(), "{report}");
    assert_has(&ids("accepted"), &ACCEPTED);
}

#[test]
#[ignore = "boots 4 guests: make test-all"]
fn each_fault_of_1999_is_found_by_its_check() {
    if !can_boot() {
        return;
    }
    let (by_outcome, text) = run_and_check("mindcraft-1999-unfair.toml");
    assert_has(
        &by_outcome["failed"],
        &[
            "descriptors",      // 24 open files for 48 clients
            "failed-requests",  // of clients without an open file
            "limits",           // set in only one arm
            "memory",           // one arm has a quarter
            "one-sided-tuning", // only the other arm is tuned
            "server-stressed",  // the clients are the limit
        ],
    );
    assert_has(&by_outcome["accepted"], &ACCEPTED);
    assert!(text.contains("withheld: "), "{text}");
    assert!(!text.contains("7.2 serves"), "{text}");
}

/// The same comparison without the faults.
#[test]
#[ignore = "boots 4 guests: make test-all"]
fn a_fair_version_of_the_comparison_of_1999_fails_no_check() {
    if !can_boot() {
        return;
    }
    let (by_outcome, text) = run_and_check("mindcraft-1999-fair.toml");
    assert_eq!(by_outcome.get("failed"), None, "{text}");
    let accepted = by_outcome.get("accepted");
    assert!(
        accepted.is_none_or(|ids| !ids.contains("static-pages")),
        "{text}"
    );
}

/// A short comparison of products as shipped, in which one arm has less memory.
fn plan_with_handicap() -> String {
    let kernel = "kernel = \"debian:bookworm/6.1\"\n";
    PLAN.replacen("[machine]", "mode = \"as-shipped\"\n[machine]", 1)
        .replacen("512MiB", "1GiB", 1)
        .replacen("max_blocks = 1", "min_blocks = 2\nmax_blocks = 2", 1)
        .replacen(kernel, &format!("{kernel}cmdline = \"mem=512M\"\n"), 1)
}

/// The user sees the failed check early, not only at the end.
#[test]
#[ignore = "boots 4 guests: make test-all"]
fn a_handicap_is_reported_after_the_first_block_and_product_defaults_are_accepted() {
    if !can_boot() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), plan_with_handicap()).unwrap();
    let run = bakeoff(dir.path(), &["run", "plan.toml", "--jobs", "1", "--json"]);
    let progress = stderr(&run);
    assert_eq!(run.status.code(), Some(0), "{progress}");
    let place = |text: &str| progress.find(text).expect(text);
    let second = place("  block  2  trial 003");
    let foreseen = "before the first trial: 1 failed fairness check";
    let measured = "    memory: MemTotal of /proc/meminfo: ";
    assert!(
        place(foreseen) < place("  block  1  trial 001"),
        "{progress}"
    );
    assert!(place(measured) < second, "{progress}");
    // After block 1 as "so far", and at the first test, which is after block 2.
    assert_eq!(progress.matches(measured).count(), 2, "{progress}");
    let mut failed_checks = Vec::new();
    for line in stdout(&run).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["kind"] == "failed-checks" {
            failed_checks.push(line);
        }
    }
    assert_eq!(
        (&failed_checks[0]["blocks"], &failed_checks[1]["blocks"]),
        (&0.into(), &1.into())
    );
    assert_eq!(failed_checks[0]["failed_checks"][0]["id"], "memory");
    let report = bakeoff(dir.path(), &["show", "runs/plan", "--fairness", "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let findings = report["fairness"].as_array().unwrap();
    let finding = |id: &str| findings.iter().find(|row| row["id"] == id).unwrap();
    for id in ["sysctls", "kernel-configuration", "huge-pages"] {
        assert_eq!(finding(id)["outcome"], "accepted", "{}", finding(id));
        assert_eq!(finding(id)["by"], "as-shipped", "{}", finding(id));
    }
    assert_eq!(finding("memory")["outcome"], "failed");
}
