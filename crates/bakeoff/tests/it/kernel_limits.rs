//! Limits of kernels in real guests: small numbers of each kind, and a file system beyond 2 TiB.

use crate::real_guests::{measured, run_in_guests, value};

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

/// The plan limits the number of processes, so that figure is lower than asked for. The other
/// figures are complete.
#[test]
#[ignore = "boots 2 guests: make test-all"]
fn limits_of_kernels_are_measured() {
    let Some(run) = run_in_guests(PLAN) else {
        return;
    };
    assert_eq!(measured(&run).count(), 2);
    for (trial, facts) in measured(&run) {
        let figure = |name: &str| value(trial, name);
        let processes = figure("processes");
        assert!((300.0..500.0).contains(&processes), "{processes}");
        let fact = |name: &str| facts.values[&format!("limits:{name}")].as_str();
        let refused = fact("processes-refused");
        assert!(refused.contains("os error 11"), "{refused}");
        let kinds = ["threads", "files", "sockets", "devices", "file-system"];
        let counts = kinds.map(|kind| figure(kind).to_string());
        assert_eq!(counts, ["50", "1000", "100", "12", "3"]);
        let tebibytes =
            |name: &str| -> f64 { fact(name).trim_end_matches(" TiB").parse().unwrap() };
        let file = tebibytes("file-system-highest-file-read-back");
        // The last block is at 3 TiB after rounding.
        assert!((2.0..=3.0).contains(&file), "{file}");
        let highest = tebibytes("file-system-highest-directory-read-back");
        // 7.2 keeps the blocks of new directories together, wherever the inodes are.
        let is_spread = trial.kernel.starts_with("6.1.");
        assert!(
            (0.0..=3.0).contains(&highest) && (2.0 <= highest || !is_spread),
            "{highest}"
        );
        // Hundreds of processes use megabytes. The memory of a few devices is not checked: the
        // system frees more meanwhile.
        assert!(figure("processes-memory") > 8.0 && figure("files-time") > 0.0);
    }
}
