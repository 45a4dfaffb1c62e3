//! Defects that are caused in real guests: a hung task, the crash of a server's worker, and a
//! panic. Each is reported only for its arm.
//!
//! The program of the workload causes them, depending on a sysctl that the arms set differently.
//! Debian's kernels cannot oops or warn on request (`CONFIG_LKDTM` is off), so no oops is caused
//! here; docs/reference/defects.md has one from another kernel.

use std::fs;
use std::path::Path;
use std::process::Command;

use record::defect::{DefectSource, KernelLog, Kind};
use record::rundir::Run;
use record::trial::{Outcome, VoidReason};
use record::verdict::defects::Side;

use crate::program::{bakeoff, stderr, stdout};
use crate::real_guests::can_boot;
use crate::simulated_lab::load_run;

/// Causes nothing, a hung task and a crash, or a panic.
const PROGRAM: &str = r#"#!/bin/sh
set -eu
case "$(cat /proc/sys/kernel/hung_task_timeout_secs)" in
2) ;;
3)
    echo 1 > /proc/sys/kernel/sysrq
    echo c > /proc/sysrq-trigger
    ;;
*)
    sleep 2
    echo "rate: 1"
    exit 0
    ;;
esac
mkdir -p /tmp/frozen
mount -o loop "$1/frozen.ext4" /tmp/frozen
fsfreeze --freeze /tmp/frozen
touch /tmp/frozen/file &
for process in /proc/[0-9]*; do
    case "$(tr '\0' ' ' < "$process/cmdline" 2> /dev/null || true)" in
    "nginx: worker"*) kill -SEGV "${process#/proc/}" ;;
    esac
done
sleep 8
fsfreeze --unfreeze /tmp/frozen
wait
sleep 2
echo "rate: 1"
"#;

const PLAN: &str = r#"
title = "planted defects"
baseline = "clean"
[machine]
memory = "512MiB"
clock = "instructions"
boot_timeout = "10m"
silence = "10m"
trial_limit = "2h"
[image]
recipe = "web"
[arm.clean]
kernel = "debian:bookworm/6.1"
sysctl = { "kernel.hung_task_timeout_secs" = 120 }
[arm.planted]
kernel = "debian:bookworm/6.1"
sysctl = { "kernel.hung_task_timeout_secs" = 2 }
[arm.panics]
kernel = "debian:bookworm/6.1"
sysctl = { "kernel.hung_task_timeout_secs" = 3 }
[[workload]]
kind = "command"
command = ["/bin/sh", "{dir}/plant.sh", "{dir}"]
files = ["plant.sh", "frozen.ext4", "nginx.conf"]
modules = ["loop"]
limit = "60s"
[workload.service]
command = ["/usr/sbin/nginx", "-p", "{dir}", "-c", "{dir}/nginx.conf", "-e", "stderr", "-g", "daemon off;"]
ready = ["/bin/sh", "-c", "test -s {dir}/nginx.pid"]
[[workload.metric]]
name = "rate"
unit = "1/s"
better = "higher"
pattern = "rate: ([0-9.]+)"
[design]
min_blocks = 2
max_blocks = 2
"#;

const NGINX: &str = "user root;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr;\nevents {}\nhttp { access_log off; \
                     server { listen 8080; } }\n";

#[test]
#[ignore = "boots 6 guests: make test-all"]
fn defects_in_real_guests_are_reported_for_their_arm() {
    if !can_boot() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    write_files(&dir);
    let output = bakeoff(&dir, &["run", "plan.toml", "--json"]);
    let progress = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{progress}");
    assert!(
        stdout(&output).contains("\"kind\":\"defect\""),
        "{progress}"
    );
    let run = load_run(&dir.join("runs/plan"));
    check_logs(&run);
    check_arms(&run);
}

fn write_files(dir: &Path) {
    fs::write(dir.join("plan.toml"), PLAN).unwrap();
    fs::write(dir.join("plant.sh"), PROGRAM).unwrap();
    fs::write(dir.join("nginx.conf"), NGINX).unwrap();
    let image = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "frozen.ext4", "8M"])
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .current_dir(dir)
        .status()
        .unwrap();
    assert!(image.success());
}

/// The log of every kernel was read completely.
fn check_logs(run: &Run) {
    for attempt in &run.attempts {
        let Some(log) = &attempt.defects else {
            assert!(matches!(attempt.outcome, Outcome::Skipped(_)));
            continue;
        };
        assert_eq!(log.kernel_log, KernelLog::Read { lost: 0 });
    }
}

fn check_arms(run: &Run) {
    let judgement = judge::judge(run);
    let all = &judgement.defects.found;
    let of_arm = |arm: &str| {
        let defects = all.iter().filter(|defect| defect.arm == arm);
        let kinds = defects.map(|defect| (defect.kind, defect.side));
        kinds.collect::<Vec<_>>()
    };
    let planted = of_arm("planted");
    assert_eq!(planted.len(), 2, "{all:#?}");
    assert!(
        planted.contains(&(Kind::HungTask, Side::OnlyArm)),
        "{all:#?}"
    );
    assert!(
        planted.contains(&(Kind::ServiceCrash, Side::OnlyArm)),
        "{all:#?}"
    );
    assert_eq!(of_arm("panics"), [(Kind::Panic, Side::OnlyArm)], "{all:#?}");
    for attempt in &run.attempts {
        if let Outcome::Void(void) = &attempt.outcome {
            assert_eq!(attempt.trial.arm, "panics", "{void}");
            assert_eq!(void.reason, VoidReason::Panic);
            let defects = &attempt.defects.as_ref().unwrap().found;
            assert_eq!(defects[0].source, DefectSource::Console);
        }
    }
}
