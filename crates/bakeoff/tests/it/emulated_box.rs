//! An emulated box that is reached by ssh: sshd and kexec-tools, an e1000e, an AHCI disk, a watchdog, a management controller.
//!
//! ```text
//! bakeoff run --ssh--> host system (image box.toml, own-init.sh) --kexec--> arm --restart--> host system
//!             --ipmitool--> ipmi_sim --chassis.py--> QMP of the QEMU that emulates the box
//! act.sh in each trial asks this test for the fault to inject
//! ```
//! The box has no virtio and no other channel to QEMU. `each_machine` has a short test of it.

pub(crate) mod boxed;
mod lab;
mod with_clients;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use self::boxed::{EmulatedBox, Fault};
use crate::real_guests::wall_clock_lane;

/// Faults in the trials of each kernel, in this order; each failed trial is repeated once. When 7.2
/// restarts after a panic, its netconsole is silent, and only the firmware keeps the panic.
const FAULTS: [(&str, Fault); 6] = [
    ("6.1.", Fault::PanicAndPowerOff),
    ("6.1.", Fault::None),
    ("7.2", Fault::Panic),
    ("7.2", Fault::None),
    ("6.1.", Fault::Hang),
    ("6.1.", Fault::Unplug),
];

#[test]
#[ignore = "boots 20 guests: make test-all"]
fn a_box_returns_to_its_host_system_after_each_fault_and_compares_kernels() {
    if !boxed::can_start() {
        return;
    }
    let _lane = wall_clock_lane();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let emulated = EmulatedBox::start(&dir);
    emulated.wait_for_own_system(1);
    check_doctor(&emulated);
    check_refusals(&emulated);
    check_run(&emulated);
}

fn check_doctor(emulated: &EmulatedBox) {
    let (status, text) = emulated.bakeoff(&["doctor", "ssh:box", "--ssh-config", "ssh_config"]);
    println!("{text}");
    assert_eq!(status, Some(0), "{text}");
    for part in [
        "eth0, driver e1000e, 10.0.2.15/24",
        "i6300ESB timer",
        "kexec",
        "erst",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// Refusals before a kernel is loaded. The box must not restart.
fn check_refusals(emulated: &EmulatedBox) {
    let before = emulated.boot_id();
    let plan = fs::read_to_string(emulated.dir.join("plan.toml")).unwrap();
    let refused = |name: &str, (from, to): (&str, &str), parts: &[&str]| {
        assert!(plan.contains(from), "{from}");
        let file = format!("{name}.toml");
        fs::write(emulated.dir.join(&file), plan.replace(from, to)).unwrap();
        let (status, text) = emulated.bakeoff(&["run", &file]);
        println!("{text}");
        assert_eq!(status, Some(2), "{name}: {text}");
        for part in parts {
            assert!(text.contains(part), "{name}: {text}");
        }
    };
    refused(
        "wrong-key",
        ("\"ssh_config\"", "\"ssh_config.wrong\""),
        &["host key refused: box is not the box that ssh knows by this name"],
    );
    refused(
        "wrong-interface",
        ("address =", "interface = \"eth9\"\naddress ="),
        &["no such interface: eth9 (there are: lo, eth0)"],
    );
    refused(
        "wrong-kernel",
        (
            "debian:trixie-backports/7.2",
            "debian:bookworm/6.1.*-cloud-amd64",
        ),
        &[
            "wrong-kernel.toml:",
            "-cloud-amd64 has no driver e1000e for interface eth0",
        ],
    );
    emulated.ssh("mv /usr/sbin/kexec /root/kexec");
    refused(
        "no-kexec",
        ("title", "title"),
        &["box cannot boot arms: no kexec there (install kexec-tools)"],
    );
    emulated.ssh("mv /root/kexec /usr/sbin/kexec");
    assert_eq!(emulated.boot_id(), before);
}

/// Lists directories in which a program could leave files.
const LIST_FILES: &str = "ls -A /var/cache /boot /etc /root /usr/sbin";

fn check_run(emulated: &EmulatedBox) {
    let before = emulated.ssh(LIST_FILES);
    // Ctrl-C ends the run in a trial after all faults and one complete block.
    let (status, text) = emulated.run_through("plan.toml", &FAULTS);
    println!("{text}");
    assert_eq!(status, Some(2), "{text}");
    assert!(
        text.contains("interrupted; what has ended is kept"),
        "{text}"
    );
    // The box runs its host system, which is unchanged except for the cache directory.
    emulated.check_home();
    let after = emulated.ssh(LIST_FILES);
    let rest: Vec<&str> = after.lines().filter(|line| *line != "bakeoff").collect();
    assert_eq!(rest, before.lines().collect::<Vec<_>>());
    let (status, judged) = emulated.bakeoff(&["show", "runs/plan", "--json"]);
    assert_eq!(status, Some(0), "{judged}");
    check_attempts(&emulated.dir.join("runs/plan/trials"));
    let verdict = fs::read_to_string(emulated.dir.join("runs/plan/verdict.json")).unwrap();
    let verdict: Value = serde_json::from_str(&verdict).unwrap();
    let comparisons = verdict["comparisons"].as_array().unwrap();
    let is_judged = |row: &Value| row["arm"] == "7.2" && row["ratio"].is_number();
    assert!(comparisons.iter().any(is_judged), "{verdict}");
    let power = fs::read_to_string(emulated.dir.join("power.log")).unwrap();
    assert!(power.contains("set reset"), "{power}");
}

/// In the log of a kernel whose panic this test caused.
const CAUSED_PANIC: &str = "sysrq triggered crash";

/// Each fault ended an attempt as expected, and both kernels were measured.
fn check_attempts(trials: &Path) {
    let mut kernels = BTreeSet::new();
    let (mut panics, mut panics_by_network, mut exits) = (0, 0, 0);
    let mut outcomes = Vec::new();
    for entry in fs::read_dir(trials).unwrap() {
        let dir = entry.unwrap().path();
        // The last attempt was interrupted.
        let Ok(text) = fs::read_to_string(dir.join("trial.json")) else {
            continue;
        };
        let record: Value = serde_json::from_str(&text).unwrap();
        let outcome = &record["outcome"];
        outcomes.push(format!("{}: {outcome}", dir.display()));
        if let Some(kernel) = outcome["measured"]["kernel"].as_str() {
            kernels.insert(kernel.to_string());
            continue;
        }
        let detail = outcome["void"]["detail"].as_str().unwrap();
        match outcome["void"]["reason"].as_str().unwrap() {
            "panic" => {
                let text = fs::read_to_string(dir.join("pstore.log")).unwrap();
                assert!(text.contains("Kernel panic - not syncing"), "{text}");
                // With an old emulator, kernels panic now and then for other reasons.
                if !text.contains(CAUSED_PANIC) {
                    println!("not planted: {text}");
                    continue;
                }
                panics += 1;
                let text = fs::read_to_string(dir.join("console.log")).unwrap();
                panics_by_network += u32::from(text.contains("Kernel panic - not syncing"));
                // The panic is a defect, from either log.
                let defects = fs::read_to_string(dir.join("defects.jsonl")).unwrap();
                assert!(defects.contains("panic"), "{defects}");
            }
            // The lab asked the box, or the connection broke.
            "machine-exit" => {
                exits += 1;
                let is_home = detail.contains("own operating system again");
                assert!(
                    is_home || detail.contains("the line to the box ended"),
                    "{record}"
                );
            }
            reason => panic!("{reason}: {record}"),
        }
    }
    assert_eq!((panics, panics_by_network), (2, 1), "{outcomes:#?}");
    // On a busy host the emulator may lose another boot.
    assert!(exits >= 2, "{outcomes:#?}");
    assert_eq!(kernels.len(), 2, "{kernels:?}");
}
