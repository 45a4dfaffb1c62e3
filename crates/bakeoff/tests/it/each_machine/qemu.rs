//! QEMU on this host: a comparison is killed, resumes, and explains the difference by profiles.

use std::path::PathBuf;

use crate::program::stderr;
use crate::real_guests::{
    PLAN, can_boot, check_explanation, check_profiles, check_run, processes, run_plan,
    run_plan_with, wait_for_measured, wait_for_the_end_of_all,
};

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn a_killed_comparison_resumes_and_explains_the_difference() {
    if !can_boot() {
        return;
    }
    // Without symbolic links, as /proc shows paths.
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let plan = format!("{PLAN}\n[why]\n");
    let mut first = run_plan_with(&["--jobs", "1"], &dir, &plan);
    wait_for_measured(&mut first, 1, &dir);
    first.kill().unwrap();
    first.wait().unwrap();
    wait_for_the_end_of_all(&dir);

    let second = run_plan(&dir, &plan).wait_with_output().unwrap();
    let log = stderr(&second);
    assert_eq!(second.status.code(), Some(0), "{log}");
    assert!(log.contains("going on with an interrupted run"), "{log}");
    assert_eq!(processes(&dir, "-accel"), [] as [PathBuf; 0]);
    let run = dir.join("runs/plan");
    check_run(&run, 1);
    check_profiles(&run, 2);
    check_explanation(&run);
}
