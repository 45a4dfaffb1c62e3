//! Schedulers of earlier kernels in an emulated guest with two CPUs. Emulation distorts its
//! figures, so none is checked.

use record::rundir::Run;

use crate::real_guests::{measured, run_in_guests, wall_clock_lane};

/// Tasks that compute, and one that wakes up meanwhile. On a busy host, a guest with two CPUs may
/// hang in its boot; then the trial is repeated. Time in which the guest waits for the host's CPUs
/// does not count for these limits.
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

/// A trial is measured only if the kernel ran the scheduler from begin to end.
#[test]
#[ignore = "boots 3 guests: make test-all"]
fn schedulers_of_earlier_kernels_run_on_two_cpus() {
    let _lane = wall_clock_lane();
    let Some(run) = run_in_guests(PLAN) else {
        return;
    };
    for scheduler in ["fifo", "goodness", "o1"] {
        let trials = counted(&run, scheduler);
        // More than one if the host was busy and the block ran again.
        assert!(!trials.is_empty(), "{scheduler}: {:?}", run.attempts);
        for count in trials {
            // A task that migrates has run on both CPUs.
            assert!(count("migrations") > 0, "{scheduler}");
            assert_eq!(count("locks") > 0, scheduler != "fifo", "{scheduler}");
            assert!(count("contended") <= count("locks"), "{scheduler}");
            assert_eq!(count("balances") > 0, scheduler == "o1", "{scheduler}");
        }
    }
}

/// The counters of a scheduler in each of its measured trials.
fn counted<'a>(run: &'a Run, scheduler: &str) -> Vec<impl Fn(&str) -> u64 + 'a> {
    let mut counted = Vec::new();
    for (_, facts) in measured(run) {
        if facts.values["scheduler"] == scheduler {
            let count = |name: &str| facts.values[&format!("scheduler:{name}")].parse().unwrap();
            counted.push(count);
        }
    }
    counted
}
