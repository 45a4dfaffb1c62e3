//! Clients on this host and in a second guest: one trial each, and Ctrl-C in the next.

use std::fs;
use std::process::{Command, Stdio};

use crate::clients_apart::{IN_GUEST, ON_HOST, Place, can_have_clients};
use crate::program::{signal, stderr};
use crate::real_guests::{can_boot, wait_for_measured, wait_for_the_end_of_all, wall_clock_lane};

/// The program as root with all capabilities dropped except `CAP_SETFCAP`, which maps root into a
/// user namespace.
fn without_rights() -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        "--bounding-set=-all,+setfcap",
        "--inh-caps=-all",
        "--no-new-privs",
    ]);
    command.arg(env!("CARGO_BIN_EXE_bakeoff"));
    command
}

fn check(place: &Place, mut program: Command) {
    let _lane = wall_clock_lane();
    let temp = tempfile::tempdir().unwrap();
    // Without symbolic links, as /proc shows paths.
    let dir = temp.path().canonicalize().unwrap();
    fs::write(dir.join("plan.toml"), place.plan()).unwrap();
    program.args(["run", "plan.toml"]).current_dir(&dir);
    program.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = program.spawn().unwrap();
    wait_for_measured(&mut run, 1, &dir);
    signal("INT", run.id());
    let error = stderr(&run.wait_with_output().unwrap());
    assert!(
        error.contains("interrupted; what has ended is kept"),
        "{error}"
    );
    wait_for_the_end_of_all(&dir);
    assert_eq!(place.check(&dir), 1);
}

#[test]
#[ignore = "boots guests as the next test does: make test-all"]
fn clients_on_this_host_need_only_user_namespaces() {
    if !can_boot() || !can_have_clients() {
        return;
    }
    let tried = without_rights().args(["clients", "--try"]).output();
    match tried {
        Ok(tried) if tried.status.success() => check(&ON_HOST, without_rights()),
        Ok(tried) => {
            let why = stderr(&tried);
            base::skip::skip(&format!("no user namespaces here: {}", why.trim()));
            check(&ON_HOST, Command::new(env!("CARGO_BIN_EXE_bakeoff")));
        }
        Err(_) => base::skip::skip("program not installed: setpriv"),
    }
}

#[test]
#[ignore = "boots guests: .ci/run, make test-all"]
fn clients_run_in_a_second_guest() {
    if can_boot() {
        check(&IN_GUEST, Command::new(env!("CARGO_BIN_EXE_bakeoff")));
    }
}
