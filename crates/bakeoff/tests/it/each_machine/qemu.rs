//! QEMU on this host: a comparison is killed and goes on, and explains its difference from profiles.

use std::path::PathBuf;

use crate::real_guests::{
    PLAN, can_boot, check_explanation, check_profiles, check_run, processes, run_plan,
    run_plan_with, wait_for_measured, wait_for_the_end_of_all,
};

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn a_killed_comparison_goes_on_and_explains_itself() {
    if !can_boot() {
        return;
    }
    // Free of symbolic links, as /proc shows it.
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let plan = format!("{PLAN}\n[why]\n");
    let mut first = run_plan_with(&["--jobs", "1"], &dir, &plan);
    wait_for_measured(&mut first, 1, &dir);
    first.kill().unwrap();
    first.wait().unwrap();
    wait_for_the_end_of_all(&dir);

    let second = run_plan(&dir, &plan).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(0), "{said}");
    assert!(said.contains("going on with an interrupted run"), "{said}");
    assert_eq!(processes(&dir, "-accel"), [] as [PathBuf; 0]);
    let run = dir.join("runs/plan");
    check_run(&run, 1);
    check_profiles(&run, 2);
    check_explanation(&run);
}
