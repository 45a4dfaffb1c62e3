//! A box by ssh: it loses power in a panic, the management controller returns it to the host
//! system, and the trial is repeated.

use std::fs;

use record::trial::{Outcome, VoidReason};

use crate::emulated_box::boxed::{self, EmulatedBox, Fault};
use crate::real_guests::wall_clock_lane;
use crate::simulated_lab::load_run;

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn a_box_without_power_is_restarted_and_measured() {
    if !boxed::can_start() {
        return;
    }
    let _lane = wall_clock_lane();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let emulated = EmulatedBox::start(&dir);
    emulated.wait_for_own_system(1);
    // Only 6.1: when 7.2 restarts after a panic, its netconsole is silent, so the lab would see no
    // panic before the power is off.
    let faults = [("6.1.", Fault::PanicAndPowerOff)];
    let (status, text) = emulated.run_until_measured("plan.toml", &faults, 2);
    println!("{text}");
    assert_eq!(status, Some(2), "{text}");
    emulated.check_home();
    let run = load_run(&dir.join("runs/plan"));
    let outcomes: Vec<_> = run
        .attempts
        .iter()
        .map(|attempt| &attempt.outcome)
        .collect();
    let mut attempts = run.attempts.iter();
    let first = attempts.find(|attempt| attempt.trial.arm == "6.1").unwrap();
    // With an old emulator, kernels panic now and then for other reasons.
    assert!(
        matches!(&first.outcome, Outcome::Void(void) if void.reason == VoidReason::Panic),
        "{outcomes:?}"
    );
    assert!(
        matches!(outcomes.last(), Some(Outcome::Measured(_))),
        "{outcomes:?}"
    );
    let trial = format!("runs/plan/trials/{:03}", first.trial.number);
    let kept = fs::read_to_string(dir.join(trial).join("pstore.log")).unwrap();
    assert!(kept.contains("sysrq triggered crash"), "{kept}");
    let power = fs::read_to_string(dir.join("power.log")).unwrap();
    assert!(power.contains("set reset"), "{power}");
}
