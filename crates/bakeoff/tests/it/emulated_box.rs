//! A box by ssh, emulated: sshd and kexec-tools, an e1000e, an AHCI disk, a watchdog, and a management controller.
//!
//! ```text
//! bakeoff run --ssh--> own operating system (image box.toml, own-init.sh) --kexec--> arm --restart--> own operating system
//!             --ipmitool--> ipmi_sim --chassis.py--> QMP of the QEMU that is the box
//! act.sh in each trial asks this test what is to befall it
//! ```
//! The box knows nothing of being emulated: no virtio, no line of QEMU's. `each_machine` has a short test of it.

pub(crate) mod boxed;
mod lab;
mod with_clients;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use self::boxed::{EmulatedBox, Fault};
use crate::real_guests::wall_clock_lane;

/// What befalls the trials of each kernel, in their order: each is tried once more. The netconsole of 7.2 is silent in a panic that
/// restarts, and firmware alone has kept it.
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
fn two_kernels_are_compared_on_a_box_and_planted_faults_end_at_home() {
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
    let (status, said) = emulated.bakeoff(&["doctor", "ssh:box", "--ssh-config", "ssh_config"]);
    println!("{said}");
    assert_eq!(status, Some(0), "{said}");
    for words in [
        "eth0, driver e1000e, 10.0.2.15/24",
        "i6300ESB timer",
        "kexec",
        "erst",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

/// What is refused before anything is loaded: each leaves the box in the boot that it was in.
fn check_refusals(emulated: &EmulatedBox) {
    let before = emulated.boot_id();
    let plan = fs::read_to_string(emulated.dir.join("plan.toml")).unwrap();
    let refused = |name: &str, edit: (&str, &str), words: &[&str]| {
        assert!(plan.contains(edit.0), "{}", edit.0);
        let file = format!("{name}.toml");
        fs::write(emulated.dir.join(&file), plan.replace(edit.0, edit.1)).unwrap();
        let (status, said) = emulated.bakeoff(&["run", &file]);
        println!("{said}");
        assert_eq!(status, Some(2), "{name}: {said}");
        for words in words {
            assert!(said.contains(words), "{name}: {said}");
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

/// Where a program might leave something.
const PLACES: &str = "ls -A /var/cache /boot /etc /root /usr/sbin";

fn check_run(emulated: &EmulatedBox) {
    let before = emulated.ssh(PLACES);
    // All faults, and a block with a figure of each arm; Ctrl-C ends the run then, in the middle of a trial.
    let (status, said) = emulated.run_through("plan.toml", &FAULTS);
    println!("{said}");
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("interrupted; what has ended is kept"),
        "{said}"
    );
    // At home, and as it was but for its cache directory.
    emulated.check_home();
    let after = emulated.ssh(PLACES);
    let rest: Vec<&str> = after.lines().filter(|line| *line != "bakeoff").collect();
    assert_eq!(rest, before.lines().collect::<Vec<_>>());
    let (status, judged) = emulated.bakeoff(&["judge", "runs/plan", "--json"]);
    assert_eq!(status, Some(0), "{judged}");
    check_attempts(&emulated.dir.join("runs/plan/trials"));
    let verdict = fs::read_to_string(emulated.dir.join("runs/plan/verdict.json")).unwrap();
    let verdict: Value = serde_json::from_str(&verdict).unwrap();
    let comparisons = verdict["comparisons"].as_array().unwrap();
    let is_judged = |one: &Value| one["arm"] == "7.2" && one["ratio"].is_number();
    assert!(comparisons.iter().any(is_judged), "{verdict}");
    let power = fs::read_to_string(emulated.dir.join("power.log")).unwrap();
    assert!(power.contains("set reset"), "{power}");
}

/// What a kernel says last that was told to panic.
const PLANTED: &str = "sysrq triggered crash";

/// Each fault has ended an attempt in the way that it should, and both kernels were measured.
fn check_attempts(trials: &Path) {
    let (mut kernels, mut panics, mut others) = (BTreeSet::new(), 0, 0);
    let mut by_network = 0;
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
                // An old emulator has a kernel panic of its own accord now and then.
                if !text.contains(PLANTED) {
                    println!("not planted: {text}");
                    continue;
                }
                panics += 1;
                let text = fs::read_to_string(dir.join("console.log")).unwrap();
                by_network += u32::from(text.contains("Kernel panic - not syncing"));
                // Whichever of the two has it.
                let defects = fs::read_to_string(dir.join("defects.jsonl")).unwrap();
                assert!(defects.contains("panic"), "{defects}");
            }
            // By asking the box, or because the connection broke.
            "machine-exit" => {
                others += 1;
                let is_home = detail.contains("own operating system again");
                assert!(
                    is_home || detail.contains("the line to the box ended"),
                    "{record}"
                );
            }
            other => panic!("{other}: {record}"),
        }
    }
    assert_eq!((panics, by_network), (2, 1), "{outcomes:#?}");
    // An emulator whose host has no time for it may lose a boot more.
    assert!(others >= 2, "{outcomes:#?}");
    assert_eq!(kernels.len(), 2, "{kernels:?}");
}
