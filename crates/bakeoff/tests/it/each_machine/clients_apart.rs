//! Clients in a second guest: one trial, then Ctrl-C. Those on this host have the same in `make test-all`.

use std::process::Command;

use crate::clients_apart::{IN_GUEST, check_interrupted};
use crate::real_guests::can_boot;

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn clients_run_in_a_second_guest() {
    if can_boot() {
        check_interrupted(&IN_GUEST, Command::new(env!("CARGO_BIN_EXE_bakeoff")));
    }
}
