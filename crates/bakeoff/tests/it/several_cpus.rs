//! Schedulers of earlier kernels on a guest with two CPUs. Under emulation its figures mean nothing, and none is looked at.

use record::rundir::Run;
use record::trial::Outcome;

use crate::real_guests::{can_boot, run_to_end, wall_clock_lane};

/// Tasks that compute, and one that wakes beside them. A guest with two CPUs was seen to hang in its boot on a busy host, before its
/// clock was calibrated; it is tried again. Waiting for the host's CPUs does not count for these limits.
const PLAN: &str = r#"
title = "schedulers on two CPUs"
baseline = "fifo"
[machine]
memory = "512MiB"
cpus = 2
clock = "wall"
boot_timeout = "10m"
silence = "10m"
[image]
recipe = "web"
[arm.fifo]
kernel = "debian:trixie-backports/7.2"
scheduler = "fifo"
[arm.goodness]
kernel = "debian:trixie-backports/7.2"
scheduler = "goodness"
[arm.o1]
kernel = "debian:trixie-backports/7.2"
scheduler = "o1"
[[workload]]
kind = "interactive"
tasks = [8]
warmup = "200ms"
window = "1s"
[design]
margin = "2%"
max_blocks = 1
"#;

/// A trial counts only if the kernel ran its scheduler from beginning to end.
#[test]
#[ignore = "boots 3 guests: make test-all"]
fn schedulers_of_earlier_kernels_run_on_two_cpus() {
    if !can_boot() {
        return;
    }
    let _lane = wall_clock_lane();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let run = run_to_end(&dir, PLAN);
    for scheduler in ["fifo", "goodness", "o1"] {
        let trials = counted(&run, scheduler);
        // More than one where the host was busy beside the block.
        assert!(!trials.is_empty(), "{scheduler}: {:?}", run.attempts);
        for count in trials {
            // A task that migrates has run on both.
            assert!(count("migrations") > 0, "{scheduler}");
            assert_eq!(count("locks") > 0, scheduler != "fifo", "{scheduler}");
            assert!(count("contended") <= count("locks"), "{scheduler}");
            assert_eq!(count("balances") > 0, scheduler == "o1", "{scheduler}");
        }
    }
}

/// What a scheduler has counted in each of its trials that were measured.
fn counted<'a>(run: &'a Run, scheduler: &str) -> Vec<impl Fn(&str) -> u64 + 'a> {
    let mut counted = Vec::new();
    for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
        let (Outcome::Measured(_), Some(facts)) = (&attempt.outcome, facts) else {
            continue;
        };
        if facts.values["scheduler"] == scheduler {
            let count = |name: &str| facts.values[&format!("scheduler:{name}")].parse().unwrap();
            counted.push(count);
        }
    }
    counted
}
