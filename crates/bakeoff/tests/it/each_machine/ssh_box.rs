//! A box by ssh: it boots an arm's kernel, is measured, and returns to its host system.

use record::trial::Outcome;

use crate::emulated_box::boxed::{self, EmulatedBox};
use crate::simulated_lab::load_run;

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn a_box_is_measured_and_returns_to_its_host_system() {
    if !boxed::can_start() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let emulated = EmulatedBox::start(&dir);
    emulated.wait_for_own_system(1);
    let (status, text) = emulated.run_until_measured("plan.toml", &[], 1);
    println!("{text}");
    assert_eq!(status, Some(2), "{text}");
    emulated.check_home();
    let run = load_run(&dir.join("runs/plan"));
    let last = &run.attempts.last().unwrap().outcome;
    assert!(matches!(last, Outcome::Measured(_)), "{last:?}");
}
