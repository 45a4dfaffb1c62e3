//! KVM, proven: an emulated guest that has it is the host of other guests.
//!
//! ```text
//! this host --TCG--> outer guest (outer.toml; image "kvm") --KVM--> inner guests (inner.toml; image "web")
//!                    inside.sh runs bakeoff and plants faults; what it finds comes back by the console
//! ```
//! It shows that things work, never how fast. `each_machine` has a short test of it: smoke.sh boots one inner guest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;

use crate::real_guests::{can_boot, stripped, wall_clock_lane};

pub(crate) const FILES: [(&str, &str); 4] = [
    ("outer.toml", include_str!("nested_kvm/outer.toml")),
    ("inner.toml", include_str!("nested_kvm/inner.toml")),
    ("inside.sh", include_str!("nested_kvm/inside.sh")),
    ("smoke.sh", include_str!("nested_kvm/smoke.sh")),
];

#[test]
#[ignore = "boots 5 guests: make test-all"]
fn two_kernels_are_compared_under_kvm_and_planted_faults_are_told() {
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
    // A trial of each arm is enough.
    run_until_measured(2, &dir);
    let found = [shown(&dir, "001"), shown(&dir, "002")].concat();
    let found: BTreeMap<String, String> = found.into_iter().collect();
    // Seen where the test fails, or with --nocapture: as docs/machines.md has it, and why a trial was void.
    for name in ["check", "run", "void"] {
        println!("{}", found.get(name).map_or("", String::as_str));
    }
    check_faults(&found);
    check_host(&found);
    check_run(&found);
    check_facts(&found);
}

fn bakeoff(words: &[&str]) -> Value {
    let done = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(words)
        .arg("--json")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Bakeoff without its symbols, and what the inner plan takes from the cache, so that it needs no network: its kernels, its image,
/// and their names.
pub(crate) fn pack(kernels: &[&str], dir: &Path) {
    stripped(dir);
    let home = |file: &Value| {
        let file = PathBuf::from(file.as_str().unwrap());
        file.parent().unwrap().to_owned()
    };
    let of_kernel = |name: &&str| home(&bakeoff(&["kernel", "fetch", name])["vmlinuz"]);
    let mut entries: Vec<PathBuf> = kernels.iter().map(of_kernel).collect();
    entries.push(home(&bakeoff(&["image", "build", "web"])["path"]));
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

/// Runs the outer plan, and ends it once so many trials were measured.
pub(crate) fn run_until_measured(trials: usize, dir: &Path) {
    let mut run = Command::new(dir.join("bakeoff"));
    let mut run = Ended(
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

/// A run that is ended, its guests with it, whatever becomes of the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The files that a trial's guest showed on its console, by their names.
pub(crate) fn shown(dir: &Path, trial: &str) -> Vec<(String, String)> {
    // An emulator fails now and then: then the second attempt is the one that was measured.
    let trials = dir.join("runs/outer/trials");
    let second = trials.join(format!("{trial}.2"));
    let last = if second.exists() {
        second
    } else {
        trials.join(trial)
    };
    let console = last.join("console.log");
    let console = fs::read_to_string(&console).unwrap().replace('\r', "");
    let parts = console.split("=== begin ").skip(1);
    let read = |part: &str| {
        let (name, rest) = part.split_once('\n').unwrap();
        let (lines, _) = rest.split_once(&format!("=== end {name}")).unwrap();
        let bytes = BASE64_STANDARD.decode(lines.replace('\n', "")).unwrap();
        (name.to_string(), String::from_utf8(bytes).unwrap())
    };
    parts.map(read).collect()
}

fn check_faults(found: &BTreeMap<String, String>) {
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
        assert!(found[name].contains(words), "{name}: {}", found[name]);
    }
    for name in ["doctor-no-device", "doctor-no-permission", "doctor-no-svm"] {
        assert!(
            found[name].contains("guests are emulated: figures count instructions"),
            "{}",
            found[name]
        );
    }
}

/// What the outer guest lacks as a host.
fn check_host(found: &BTreeMap<String, String>) {
    let doctor = &found["doctor"];
    assert!(
        doctor.contains("/dev/kvm is there, not yet tried"),
        "{doctor}"
    );
    assert!(
        doctor.contains("itself a guest: its CPUs may be taken away"),
        "{doctor}"
    );
    let check = &found["check"];
    for words in [
        "under KVM, the host: itself a guest",
        "under KVM, virtual CPUs: no host CPU is left for the emulator and for bakeoff itself (lower cpus by one",
    ] {
        assert!(check.contains(words), "{check}");
    }
}

fn check_run(found: &BTreeMap<String, String>) {
    assert!(found["run"].ends_with("status 0\n"), "{}", found["run"]);
    let machine = "KVM, clock wall, CPUs 1, 2 by arm (host), memory 512 MiB, virtual CPUs on host CPUs 0-1, below one cache, reserved huge pages";
    assert!(found["run"].contains(machine), "{}", found["run"]);
    let journal = &found["journal.jsonl"];
    let opening: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let described = &opening["event"]["opened"]["machine"];
    assert_eq!(described["acceleration"], "kvm", "{described}");
    let verdict: Value = serde_json::from_str(&found["verdict.json"]).unwrap();
    let comparisons = verdict["comparisons"].as_array().unwrap();
    for arm in ["6.1-two", "7.2"] {
        let comparison = comparisons.iter().find(|one| one["arm"] == arm).unwrap();
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
        found["report.md"].contains("KVM, clock wall"),
        "{}",
        found["report.md"]
    );
}

/// Both kernels ran under KVM with their own number of virtual CPUs, each of which was kept to a host CPU of its own.
fn check_facts(found: &BTreeMap<String, String>) {
    let mut seen = BTreeSet::new();
    for (trial, text) in found.iter().filter(|(name, _)| name.starts_with("facts ")) {
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
            other => panic!("{other} CPUs in {trial}"),
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
