//! A disk with simulated seek times: in real guests, and refused where it is impossible.

use std::fs;

use crate::program::{bakeoff, refusal};
use crate::real_guests::{measured, run_in_guests, value};

/// Nothing writes to the disk, so the read time is the drive's.
const PLAN: &str = r#"
title = "a disk with seeks"
baseline = "bfq"
[machine]
memory = "512MiB"
clock = "instructions"
boot_timeout = "10m"
silence = "10m"
disk = { kind = "seek", store = "160MiB" }
[image]
recipe = "web"
[arm.bfq]
kernel = "debian:trixie-backports/7.2"
io_scheduler = "bfq"
queue = { nr_requests = 128, slice_idle = 8 }
[arm.none]
kernel = "debian:trixie-backports/7.2"
io_scheduler = "none"
[[workload]]
kind = "io-mix"
file = "16MiB"
writers = 0
read = "16KiB"
limit = "1m"
[design]
margin = "2%"
max_blocks = 1
"#;

/// The workload drops the page cache and compares every byte, so it measures reads from the drive.
#[test]
#[ignore = "boots 2 guests: make test-all"]
fn a_read_takes_the_time_of_the_drive() {
    let Some(run) = run_in_guests(PLAN) else {
        return;
    };
    assert_eq!(measured(&run).count(), 2);
    for (trial, facts) in measured(&run) {
        let figure = |name: &str| value(trial, name);
        // The outer tracks transfer 61.4 MB a second. The guest's own work takes less time than the
        // drive.
        let transfer = f64::from(16 << 20) / 61.4e6;
        let read_time = figure("read-time");
        assert!(
            (transfer * 0.99..transfer * 1.6).contains(&read_time),
            "{read_time} {transfer}"
        );
        let fact = |name: &str| facts.values[&format!("seek-disk:{name}")].as_str();
        let count = |name: &str| fact(name).parse::<u64>().unwrap();
        assert!(fact("geometry").starts_with("80.0 GB, 7200 rpm"));
        assert!(
            count("reads") >= 16 && count("seeks") >= 1,
            "{:?}",
            facts.values
        );
        assert!(count("kept-bytes") >= 16 << 20);
        assert_eq!((count("refused"), count("queue-depth-reached")), (0, 1));
        let queue = |name: &str| facts.values[&format!("/sys/block/ublkb0/queue/{name}")].as_str();
        assert_eq!(queue("rotational"), "1");
    }
}

#[test]
fn a_small_store_and_a_disk_without_a_workload_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let small = PLAN.replace("file = \"16MiB\"", "file = \"64MiB\"");
    fs::write(dir.join("small.toml"), small).unwrap();
    let none = PLAN.replace(
        "kind = \"io-mix\"\nfile = \"16MiB\"\nwriters = 0\nread = \"16KiB\"\nlimit = \"1m\"",
        "kind = \"threads\"",
    );
    fs::write(dir.join("none.toml"), none).unwrap();
    for (plan, want) in [
        (
            "small.toml",
            "store of the disk too small for io-mix: 160 MiB of 192 MiB",
        ),
        (
            "none.toml",
            "disk in [machine] but no workload with a disk to itself",
        ),
    ] {
        let error = refusal(&bakeoff(dir, &["check", plan]));
        assert!(error.contains(want), "{plan}: {error}");
    }
}
