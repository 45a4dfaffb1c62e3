//! Mindcraft's comparison of April 1999 with its faults, made on purpose: the gate names each of them, before any boot where the
//! plan shows it. What takes real kernels in real guests needs what `real_guests` needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::bakeoff;
use crate::real_guests::{PLAN, can_boot};

/// What the plan of 1999 names itself.
const DECLARED: [&str; 4] = [
    "command-line",
    "server-configuration",
    "socket-buffers",
    "static-pages",
];

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
            "clock = \"instructions\"\nboot_timeout = \"10m\"\nsilence = \"10m\"",
        ),
    ];
    edits.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{name} has no {from:?}");
        text.replacen(from, to, 1)
    })
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

/// All but two of the faults, that only their measurement shows: failed requests and clients that are the limit.
#[test]
fn what_a_plan_shows_of_1999_is_named_before_any_boot() {
    let plan = plans().join("mindcraft-1999-unfair.toml");
    let told = bakeoff(&plans(), &["check", plan.to_str().unwrap()]);
    let told = String::from_utf8(told.stdout).unwrap();
    let named = |outcome: &str| -> BTreeSet<String> {
        let findings = told
            .lines()
            .filter_map(|line| line.trim().strip_prefix(outcome));
        let ids = findings.filter_map(|line| line.trim().split(':').next());
        ids.map(String::from).collect()
    };
    let violations = ["descriptors", "limits", "memory", "one-sided-tuning"];
    assert_eq!(
        named("violation"),
        violations.map(String::from).into(),
        "{told}"
    );
    assert_has(&named("declared"), &DECLARED);
}

#[test]
#[ignore = "boots 4 guests: make test-all"]
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
    assert_has(&of("declared"), &DECLARED);
    assert!(said.contains("withheld: "), "{said}");
    assert!(!said.contains("7.2 serves"), "{said}");
}

/// The same question without them.
#[test]
#[ignore = "boots 4 guests: make test-all"]
fn the_question_of_1999_can_be_asked_fairly() {
    if !can_boot() {
        return;
    }
    let (of, said) = found("mindcraft-1999-fair.toml");
    assert_eq!(of("violation"), BTreeSet::new(), "{said}");
    assert!(!of("declared").contains("static-pages"), "{said}");
}

/// One arm of two products lacks memory: a short comparison, as shipped.
fn handicap() -> String {
    let of_6_1 = "kernel = \"debian:bookworm/6.1\"\n";
    PLAN.replacen("[machine]", "mode = \"as-shipped\"\n[machine]", 1)
        .replacen("512MiB", "1GiB", 1)
        .replacen("max_blocks = 1", "min_blocks = 2\nmax_blocks = 2", 1)
        .replacen(of_6_1, &format!("{of_6_1}cmdline = \"mem=512M\"\n"), 1)
}

/// Whoever reads the first lines need not wait for the last ones.
#[test]
#[ignore = "boots 4 guests: make test-all"]
fn a_handicap_is_told_after_the_first_block_and_what_products_bring_is_declared() {
    if !can_boot() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plan.toml"), handicap()).unwrap();
    let ran = bakeoff(dir.path(), &["run", "plan.toml", "--jobs", "1", "--json"]);
    let progress = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{progress}");
    let place = |text: &str| progress.find(text).expect(text);
    let second = place("  block  2  trial 003");
    let foreseen = "before the first trial: 1 violation of fairness";
    let found = "    memory: MemTotal of /proc/meminfo: ";
    assert!(
        place(foreseen) < place("  block  1  trial 001"),
        "{progress}"
    );
    assert!(place(found) < second, "{progress}");
    assert_eq!(progress.matches(found).count(), 1, "{progress}");
    let lines = String::from_utf8(ran.stdout).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<Value> = lines.filter(|line| line["kind"] == "violations").collect();
    let blocks: Vec<_> = told
        .iter()
        .map(|line| line["blocks"].as_u64().unwrap())
        .collect();
    assert_eq!(blocks[..2], [0, 1]);
    assert_eq!(told[0]["violations"][0]["id"], "memory");
    let found = bakeoff(dir.path(), &["fairness", "runs/plan", "--json"]);
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let found = found["fairness"].as_array().unwrap();
    let of = |id: &str| found.iter().find(|one| one["id"] == id).unwrap();
    for id in ["sysctls", "kernel-configuration", "huge-pages"] {
        assert_eq!(of(id)["outcome"], "declared", "{}", of(id));
        assert_eq!(of(id)["by"], "as-shipped", "{}", of(id));
    }
    assert_eq!(of("memory")["outcome"], "violation");
}
