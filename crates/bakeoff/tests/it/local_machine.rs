//! The host itself as a machine: real servers, and nothing left of them.
//!
//! Needs root, cgroup2 and nginx; where one is missing it says that it was skipped.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use record::rundir;
use record::trial::Outcome;

/// A sysctl of the whole kernel, so that only the janitor can put it back.
const SYSCTL: &str = "/proc/sys/vm/swappiness";

/// The tests change the same sysctl.
static HOST: Mutex<()> = Mutex::new(());

/// The arm that changes the sysctl is the first to run.
fn plan(window: &str) -> String {
    format!(
        r#"
title = "this host"
baseline = "plain"
[machine]
kind = "local"
[arm.plain]
[arm.tuned]
sysctl = {{ "vm.swappiness" = 7 }}
env = {{ BAKEOFF_TEST = "yes" }}
config = "server_tokens off;"
[[workload]]
kind = "web-static"
server = "nginx"
connections = 4
warmup = "100ms"
window = "{window}"
[design]
margin = "2%"
min_blocks = 2
max_blocks = 2
seed = 1
"#
    )
}

fn can_run() -> bool {
    let why = if fs::metadata("/proc/self").unwrap().uid() != 0 {
        "root"
    } else if !Path::new("/usr/sbin/nginx").exists() {
        "nginx (make packages)"
    } else if !fs::read_to_string("/proc/mounts").is_ok_and(|mounts| mounts.contains(" cgroup2 ")) {
        "a cgroup2 file system"
    } else {
        return true;
    };
    eprintln!("SKIPPED: trials on this host need {why}");
    false
}

fn run(dir: &Path, window: &str) -> Child {
    fs::write(dir.join("plan.toml"), plan(window)).unwrap();
    Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(["run", "plan.toml"])
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn swappiness() -> String {
    fs::read_to_string(SYSCTL).unwrap().trim().into()
}

fn cgroup(pid: u32) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut places = mounts.lines().filter(|line| line.contains(" cgroup2 "));
    let place = places
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .unwrap();
    Path::new(place).join(format!("bakeoff-{pid}")).exists()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "waited for {what}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_on_this_host_measures_real_servers_and_puts_everything_back() {
    if !can_run() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let (dir, before) = (tempfile::tempdir().unwrap(), swappiness());
    assert_ne!(
        before, "7",
        "the test needs another value than the host has"
    );
    let child = run(dir.path(), "1s");
    let pid = child.id();
    let end = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&end.stderr).into_owned();
    assert_eq!(end.status.code(), Some(0), "{said}");
    assert_eq!((swappiness(), cgroup(pid)), (before, false));
    assert!(
        !Path::new("/run/bakeoff").exists(),
        "nothing is written to the host's own root"
    );

    let run = rundir::load(&dir.path().join("runs/plan"), &workload::check).unwrap();
    let seen = |arm: &str| {
        let its = run
            .attempts
            .iter()
            .zip(&run.facts)
            .filter(|(attempt, _)| attempt.trial.arm == arm);
        let measured = its.filter(|(attempt, _)| matches!(attempt.outcome, Outcome::Measured(_)));
        let facts = measured.filter_map(|(_, facts)| facts.as_ref());
        facts
            .map(|facts| facts.sysctls["vm.swappiness"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(seen("tuned"), ["7", "7"]);
    assert_eq!(seen("plain"), [swappiness(), swappiness()]);
    let judgement = verdict::judge(&run);
    let configuration = judgement
        .differences
        .iter()
        .find(|one| one.fact.starts_with("hash:configuration:"));
    assert!(
        configuration.is_some_and(|one| one.declared),
        "{:?}",
        judgement.differences
    );
}

#[test]
fn a_run_that_is_killed_leaves_no_process_cgroup_or_sysctl_behind() {
    if !can_run() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let (dir, before) = (tempfile::tempdir().unwrap(), swappiness());
    let mut child = run(dir.path(), "30m");
    let pid = child.id();
    wait_for("a trial", || cgroup(pid));
    wait_for("the sysctl", || swappiness() == "7");
    child.kill().unwrap();
    child.wait().unwrap();
    // A cgroup can be removed only when no process is left in it.
    wait_for("the janitor", || !cgroup(pid) && swappiness() == before);
}
