//! Guests of another architecture than the host's, from the kernel's package to the explanation. They need the agent that
//! `make test-arm64` builds.

use std::fs;

use base::arch::Arch;

use crate::program::{bakeoff, refusal};
use crate::real_guests::{PLAN, check_explanation, check_profiles, check_run, run_to_end, value};

/// The plan of two kernels, for guests of arm64 on x86-64.
fn plan() -> String {
    let plan = PLAN.replace("[machine]\n", "[machine]\narch = \"aarch64\"\n");
    // The agent of a debug build has 140 MB.
    let plan = plan.replace("512MiB", "1GiB");
    format!("{plan}\n[why]\n")
}

#[test]
#[ignore = "needs an agent for arm64: make test-arm64"]
fn two_kernels_for_arm_are_compared_and_their_difference_is_explained() {
    let temp = tempfile::tempdir().unwrap();
    let run = run_to_end(temp.path(), &plan());
    for trial in &run.attempts {
        let kernel = trial.outcome.measured().map(|measured| &measured.kernel);
        assert!(
            kernel.is_some_and(|kernel| kernel.contains("-arm64 ")),
            "{kernel:?}"
        );
    }
    let dir = temp.path().join("runs/plan");
    check_run(&dir, 1);
    check_profiles(&dir, 2);
    check_explanation(&dir);
}

/// The unit tests of the agent that count events of the CPU, in guests whose emulated CPU has counters. Each prints how many times the
/// path length of a loop grows as its turns double; without counters there is nothing to print, and the trial fails.
const COUNTERS: &str = r#"
[[workload]]
kind = "command"
files = ["guest-tests"]
command = ["sh", "-c", "exec {dir}/guest-tests hardware_counters --include-ignored --nocapture 2>&1"]
limit = "10m"
[[workload.metric]]
name = "ratio"
unit = "1"
better = "higher"
pattern = "ratio ([0-9.]+)"
[design]
max_blocks = 1
"#;

#[test]
#[ignore = "needs the agent's unit tests for arm64: make test-arm64"]
fn the_counters_of_an_arm_cpu_count_the_path_length() {
    let temp = tempfile::tempdir().unwrap();
    let tests = std::env::var_os("BAKEOFF_GUEST_TESTS").expect("make test-arm64 names them");
    fs::copy(tests, temp.path().join("guest-tests")).unwrap();
    let plan = plan();
    let (machine_and_arms, _) = plan.split_once("[[workload]]").unwrap();
    let run = run_to_end(temp.path(), &format!("{machine_and_arms}{COUNTERS}"));
    assert_eq!(run.attempts.len(), 2);
    for trial in &run.attempts {
        let measured = trial.outcome.measured().unwrap();
        let ratio = value(measured, "ratio");
        assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
    }
}

/// The refusal of a plan by `check`, with files beside it.
fn refused(plan: &str, files: &[(&str, &[u8])]) -> String {
    let temp = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(temp.path().join(name), content).unwrap();
    }
    fs::write(temp.path().join("plan.toml"), plan).unwrap();
    refusal(&bakeoff(temp.path(), &["check", "plan.toml"]))
}

#[test]
fn a_kernel_of_another_architecture_is_refused_before_anything_boots() {
    if Arch::HOST != Arch::X86_64 {
        return;
    }
    let mut image = vec![0; 4096];
    image[0x38..0x3c].copy_from_slice(b"ARM\x64");
    image.extend(b"Linux version 6.9.1 (builder)");
    let plan = PLAN.replace("debian:bookworm/6.1", "./Image");
    let why = refused(&plan, &[("Image", &image)]);
    assert!(
        why.contains("kernel for aarch64 on a machine of x86_64: "),
        "{why}"
    );
    assert!(
        why.contains("write arch = \"aarch64\" in [machine]"),
        "{why}"
    );
}

#[test]
fn an_unknown_architecture_is_refused_with_the_known_ones() {
    let plan = PLAN.replace("[machine]\n", "[machine]\narch = \"arm64\"\n");
    let why = refused(&plan, &[]);
    assert!(
        why.contains("unknown arch: \"arm64\" (known: x86_64, aarch64)"),
        "{why}"
    );
}
