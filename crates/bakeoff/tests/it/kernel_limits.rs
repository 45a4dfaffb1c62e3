//! How far a kernel goes: a few of each kind in real guests, and a file system past 2 TiB.

use record::trial::Outcome;

use crate::real_guests::{can_boot, run_to_end};

const PLAN: &str = r#"
title = "limits of 2004"
baseline = "6.1"
[machine]
memory = "512MiB"
clock = "instructions"
boot_timeout = "10m"
silence = "10m"
[image]
recipe = "web"
[pinned.sysctl]
"kernel.pid_max" = "500"
[arm."6.1"]
kernel = "debian:bookworm/6.1"
[arm."7.2"]
kernel = "debian:trixie-backports/7.2"
[[workload]]
kind = "limits"
processes = 1000
threads = 50
files = 1000
sockets = 100
devices = 12
file_system = "3TiB"
limit = "5m"
[design]
margin = "2%"
max_blocks = 1
"#;

/// Of processes there are fewer than are wanted, because the plan sets the limit: that is a figure, and the others are whole.
#[test]
#[ignore = "boots 2 guests: make test-all"]
fn kernels_are_asked_how_far_they_go() {
    if !can_boot() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let run = run_to_end(&dir, PLAN);
    let mut measured = 0;
    for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
        let (Outcome::Measured(trial), Some(facts)) = (&attempt.outcome, facts) else {
            continue;
        };
        let figure = |name: &str| {
            let mut figures = trial.figures.iter();
            figures.find(|one| one.spec.name == name).unwrap().value
        };
        let processes = figure("processes");
        assert!((300.0..500.0).contains(&processes), "{processes}");
        let told = |name: &str| facts.values[&format!("limits:{name}")].as_str();
        assert!(
            told("processes-refused").contains("os error 11"),
            "{}",
            told("processes-refused")
        );
        let kinds = ["threads", "files", "sockets", "devices", "file-system"];
        let counts = kinds.map(|kind| figure(kind).to_string());
        assert_eq!(counts, ["50", "1000", "100", "12", "3"]);
        let tebibytes = |name: &str| -> f64 {
            let told = told(name).trim_end_matches(" TiB");
            told.parse().unwrap()
        };
        let file = tebibytes("file-system-highest-file-read-back");
        // Rounded, the last of its blocks lie at 3 TiB.
        assert!((2.0..=3.0).contains(&file), "{file}");
        let highest = tebibytes("file-system-highest-directory-read-back");
        // 7.2 puts the blocks of new directories together, wherever their inodes are.
        let is_spread = trial.kernel.starts_with("6.1.");
        assert!(
            (0.0..=3.0).contains(&highest) && (2.0 <= highest || !is_spread),
            "{highest}"
        );
        // Hundreds of processes take megabytes. What a few devices take is lost in what the system frees meanwhile.
        assert!(figure("processes-memory") > 8.0 && figure("files-time") > 0.0);
        measured += 1;
    }
    assert_eq!(measured, 2);
}
