//! KVM in tests: an emulated guest with KVM is the host of inner guests.
//!
//! ```text
//! this host --TCG--> outer guest (outer.toml; image "kvm") --KVM--> inner guests (inner.toml; image "web")
//!                    inside.sh runs bakeoff and injects faults; its results come back through the console
//! ```
//! This shows that KVM works, but not how fast it is. `each_machine` has a short test: smoke.sh boots one inner guest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

use crate::program::{KillOnDrop, command};
use crate::real_guests::{can_boot, stripped, wall_clock_lane};

pub(crate) const FILES: [(&str, &str); 4] = [
    ("outer.toml", include_str!("nested_kvm/outer.toml")),
    ("inner.toml", include_str!("nested_kvm/inner.toml")),
    ("inside.sh", include_str!("nested_kvm/inside.sh")),
    ("smoke.sh", include_str!("nested_kvm/smoke.sh")),
];

#[test]
#[ignore = "boots 5 guests: make test-all"]
fn two_kernels_are_compared_under_kvm_and_injected_faults_are_reported() {
    if !can_boot() {
        return;
    }
    let _lane = wall_clock_lane();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    for (name, text) in FILES {
        fs::write(dir.join(name), text).unwrap();
    }
    let kernels = ["debian:bookworm/6.1", "debian:trixie-backports/7.2"];
    pack(&kernels, &dir);
    // One trial of each arm is enough.
    run_until_measured(2, &dir);
    let files = [shown_files(&dir, "001"), shown_files(&dir, "002")].concat();
    let files: BTreeMap<String, String> = files.into_iter().collect();
    // Shown if the test fails, or with --nocapture: the output for docs/howto/kvm.md, and why a
    // trial was void.
    for name in ["check", "run", "void"] {
        println!("{}", files.get(name).map_or("", String::as_str));
    }
    check_faults(&files);
    check_host(&files);
    check_run(&files);
    check_facts(&files);
}

fn bakeoff_json(args: &[&str]) -> Value {
    let mut command = command(Path::new("."), args);
    let output = command.arg("--json").stderr(Stdio::inherit()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{args:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Packs bakeoff without its symbols, and the inner plan's kernels and image from the cache, so
/// that the guest needs no network.
pub(crate) fn pack(kernels: &[&str], dir: &Path) {
    stripped(dir);
    let cache_entry = |file: &Value| {
        let file = PathBuf::from(file.as_str().unwrap());
        file.parent().unwrap().to_owned()
    };
    let mut entries = Vec::new();
    for kernel in kernels {
        let fetched = bakeoff_json(&["cache", "kernel", "fetch", kernel]);
        entries.push(cache_entry(&fetched["vmlinuz"]));
    }
    let image = bakeoff_json(&["cache", "image", "build", "web"]);
    entries.push(cache_entry(&image["path"]));
    let root = entries[0].ancestors().nth(2).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("--create")
        .arg("--file")
        .arg(dir.join("cache.tar.gz"))
        .args(["--use-compress-program", "gzip -1"])
        .args(["--transform", "s|^|bakeoff/|", "names"])
        .arg("--directory")
        .arg(root);
    tar.current_dir(root);
    for entry in &entries {
        tar.arg(entry.strip_prefix(root).unwrap());
    }
    assert!(tar.status().unwrap().success());
}

/// Runs the outer plan, and kills it once this many trials were measured.
pub(crate) fn run_until_measured(trials: usize, dir: &Path) {
    let mut run = Command::new(dir.join("bakeoff"));
    let mut run = KillOnDrop(
        run.args(["run", "outer.toml"])
            .current_dir(dir)
            .spawn()
            .unwrap(),
    );
    let journal = dir.join("runs/outer/journal.jsonl");
    let measured = || {
        let journal = fs::read_to_string(&journal).unwrap_or_default();
        journal.matches("\"ending\":\"measured\"").count()
    };
    while measured() < trials {
        let status = run.0.try_wait().unwrap();
        assert!(
            status.is_none(),
            "the outer run has ended early: {status:?}"
        );
        thread::sleep(Duration::from_millis(200));
    }
}

/// The files that a trial's guest printed on its console, with their names.
pub(crate) fn shown_files(dir: &Path, trial: &str) -> Vec<(String, String)> {
    // An emulated guest fails now and then; then the second attempt was measured.
    let trials = dir.join("runs/outer/trials");
    let second = trials.join(format!("{trial}.2"));
    let last = if second.exists() {
        second
    } else {
        trials.join(trial)
    };
    let console = last.join("console.log");
    let console = fs::read_to_string(&console).unwrap().replace('\r', "");
    let mut files = Vec::new();
    for part in console.split("=== begin ").skip(1) {
        let (name, rest) = part.split_once('\n').unwrap();
        let (lines, _) = rest.split_once(&format!("=== end {name}")).unwrap();
        let bytes = BASE64_STANDARD.decode(lines.replace('\n', "")).unwrap();
        files.push((name.to_string(), String::from_utf8(bytes).unwrap()));
    }
    files
}

fn check_faults(files: &BTreeMap<String, String>) {
    let faults = [
        (
            "doctor-no-device",
            "no /dev/kvm (load the module kvm_intel or kvm_amd)",
        ),
        (
            "doctor-no-permission",
            "/dev/kvm cannot be opened: Permission denied (os error 13) (add yourself to the group kvm)",
        ),
        (
            "doctor-no-svm",
            "this host is itself a guest, and its CPU has neither vmx nor svm (turn nested virtualisation on",
        ),
        (
            "check-no-svm",
            "guests are emulated, and by the wall clock such guests scatter by half: no /dev/kvm: this host is itself a guest",
        ),
    ];
    for (name, words) in faults {
        assert!(files[name].contains(words), "{name}: {}", files[name]);
    }
    for name in ["doctor-no-device", "doctor-no-permission", "doctor-no-svm"] {
        assert!(
            files[name].contains("guests are emulated: figures count instructions"),
            "{}",
            files[name]
        );
    }
}

/// The outer guest's shortcomings as a host are reported.
fn check_host(files: &BTreeMap<String, String>) {
    let doctor = &files["doctor"];
    assert!(
        doctor.contains("/dev/kvm is there, not yet tried"),
        "{doctor}"
    );
    assert!(
        doctor.contains("itself a guest: its CPUs may be taken away"),
        "{doctor}"
    );
    let check = &files["check"];
    for words in [
        "under KVM, the host: itself a guest",
        "under KVM, virtual CPUs: no host CPU is left for the emulator and for bakeoff itself (lower cpus by one",
    ] {
        assert!(check.contains(words), "{check}");
    }
}

fn check_run(files: &BTreeMap<String, String>) {
    assert!(files["run"].ends_with("status 0\n"), "{}", files["run"]);
    let machine = "KVM, clock wall, CPUs 1, 2 by arm (host), memory 512 MiB, virtual CPUs on host CPUs 0-1, below one cache, reserved huge pages";
    assert!(files["run"].contains(machine), "{}", files["run"]);
    let journal = &files["journal.jsonl"];
    let opening: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let described = &opening["event"]["opened"]["machine"];
    assert_eq!(described["acceleration"], "kvm", "{described}");
    let verdict: Value = serde_json::from_str(&files["verdict.json"]).unwrap();
    let comparisons = verdict["comparisons"].as_array().unwrap();
    for arm in ["6.1-two", "7.2"] {
        let comparison = comparisons.iter().find(|row| row["arm"] == arm).unwrap();
        assert_eq!(comparison["blocks"], 1, "{comparison}");
        assert!(comparison["ratio"].is_number(), "{comparison}");
    }
    let steps = verdict["details"]["scaling"][0]["steps"]
        .as_array()
        .unwrap();
    let counts: Vec<_> = steps.iter().map(|step| step["cpus"].as_u64()).collect();
    assert_eq!(
        counts,
        [Some(1), Some(2)],
        "{}",
        verdict["details"]["scaling"]
    );
    assert!(
        files["report.md"].contains("KVM, clock wall"),
        "{}",
        files["report.md"]
    );
}

/// Both kernels ran under KVM with their number of virtual CPUs, each pinned to a separate host
/// CPU.
fn check_facts(files: &BTreeMap<String, String>) {
    let mut seen = BTreeSet::new();
    for (trial, text) in files.iter().filter(|(name, _)| name.starts_with("facts ")) {
        let facts: Value = serde_json::from_str(text).unwrap();
        let fact = |key: &str| {
            facts["values"][key]
                .as_str()
                .unwrap_or_default()
                .to_string()
        };
        let version = fact("/proc/version");
        let kernel = ["6.1", "7.2"]
            .into_iter()
            .find(|name| version.starts_with(&format!("Linux version {name}.")));
        let cpus = fact("/proc/cpuinfo:count");
        let pinning = match cpus.as_str() {
            "1" => "vCPU 0 on 0, others on 0-1",
            "2" => "vCPU 0 on 0, vCPU 1 on 1, others on 0-1",
            count => panic!("{count} CPUs in {trial}"),
        };
        assert_eq!(fact("host:pinning"), pinning, "{trial}");
        assert_eq!(fact("host:memory"), "reserved huge pages");
        assert_eq!(fact("host:is-a-guest"), "yes");
        assert!(fact("host:steal").ends_with(" %"));
        assert!(fact("host:halt-poll-ns").parse::<u64>().is_ok());
        let log = facts["boot_log"].as_array().unwrap();
        let is_kvm = |line: &Value| {
            line.as_str()
                .unwrap_or_default()
                .contains("Hypervisor detected: KVM")
        };
        assert!(log.iter().any(is_kvm), "{trial}");
        seen.insert(format!("{} with {cpus}", kernel.unwrap_or(&version)));
    }
    let seen: Vec<_> = seen.into_iter().collect();
    assert_eq!(seen, ["6.1 with 1", "6.1 with 2", "7.2 with 1"]);
}
