//! A box by ssh: its power goes in a panic, its management controller brings it home, and the trial is tried again.

use std::fs;

use record::rundir;
use record::trial::{Outcome, VoidReason};

use crate::emulated_box::boxed::{self, EmulatedBox, Fault};
use crate::real_guests::wall_clock_lane;

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn a_box_is_brought_home_and_measured() {
    if !boxed::can_start() {
        return;
    }
    let _lane = wall_clock_lane();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let emulated = EmulatedBox::start(&dir);
    emulated.wait_for_own_system(1);
    // Of 7.2, whose netconsole is silent in a panic that restarts, nobody would hear: the power is gone before it restarts.
    let faults = [("6.1.", Fault::PanicAndPowerOff)];
    let (status, said) = emulated.run_until_measured("plan.toml", &faults, 2);
    println!("{said}");
    assert_eq!(status, Some(2), "{said}");
    emulated.check_home();
    let run = rundir::load(&dir.join("runs/plan"), &workload::check).unwrap();
    let outcomes: Vec<_> = run.attempts.iter().map(|one| &one.outcome).collect();
    let mut attempts = run.attempts.iter();
    let first = attempts.find(|one| one.trial.arm == "6.1").unwrap();
    let is_panic =
        |one: &&Outcome| matches!(one, Outcome::Void(void) if void.reason == VoidReason::Panic);
    // An old emulator has a kernel panic of its own accord now and then.
    assert!(is_panic(&&first.outcome), "{outcomes:?}");
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
