//! Clients of a real guest, on this host in a network namespace with a tap, or in a second guest.
//! Namespace and tap have no names, and nothing is left afterwards.
//!
//! The guests are emulated and timed by the wall clock, so no figure is checked. Tests of signals
//! need no boot: a script in QEMU's place starts and never sends anything. `each_machine` boots guests
//! for clients in a second guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use plan::Clients;
use record::trial::Outcome;

use crate::program::{bakeoff, command, signal, stderr, write_script};
use crate::real_guests::{
    can_boot, processes, rest_of_stderr, run_to_end, wait_for_measured, wait_for_the_end_of_all,
    wall_clock_lane,
};
use crate::simulated_lab::load_run;

pub(crate) const PLAN: &str = r#"
title = "clients outside the guest"
baseline = "small"
[machine]
memory = "512MiB"
clock = "wall"
clients = "host"
boot_timeout = "10m"
silence = "10m"
[image]
recipe = "web"
[arm.small]
kernel = "debian:bookworm/6.1"
sysctl = { "net.core.somaxconn" = 128 }
[arm.large]
kernel = "debian:bookworm/6.1"
sysctl = { "net.core.somaxconn" = 4096 }
[[workload]]
kind = "web-static"
server = "nginx"
connections = 4
addresses = 3
warmup = "500ms"
window = "5s"
[design]
margin = "20%"
max_blocks = 1
"#;

/// Where clients run, as written in the plan, in the facts, in the record, and in the description
/// of the machine.
pub(crate) struct Place {
    plan: &'static str,
    fact: &'static str,
    clients: Clients,
    machine: &'static str,
}

pub(crate) const ON_HOST: Place = Place {
    plan: "\"host\"",
    fact: "host",
    clients: Clients::Host,
    machine: "clients on this host",
};

/// The clients' guest has another kernel than the arms.
pub(crate) const IN_GUEST: Place = Place {
    plan: "\"guest2\"\nclient_kernel = \"debian:trixie-backports/7.2\"",
    fact: "guest2",
    clients: Clients::Guest2,
    machine: "clients in a guest of their own, Linux 7.2.",
};

impl Place {
    pub(crate) fn plan(&self) -> String {
        PLAN.replace(ON_HOST.plan, self.plan)
    }

    /// Checks that all measured trials had their clients here; returns their number.
    pub(crate) fn check(&self, dir: &Path) -> usize {
        let run = load_run(&dir.join("runs/plan"));
        assert_eq!(run.opening.clients, Some(self.clients));
        let machine = &judge::report::machine(&run.opening.machine);
        assert!(machine.contains(self.machine), "{machine}");
        let mut measured = 0;
        for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
            // An emulated boot fails now and then; trials that were measured must be complete.
            let (Outcome::Measured(measurement), Some(facts)) = (&attempt.outcome, facts) else {
                continue;
            };
            let load = measurement.load.as_ref().unwrap();
            assert!(load.ok > 0 && load.fault_count() == 0, "{:?}", load.faults);
            let fact = |key: &str| facts.values.get(key).map(String::as_str);
            let number = |key: &str| fact(key).and_then(|text| text.parse::<f64>().ok()).unwrap();
            // Responses came over the network card; the guest has no client side.
            assert!(number("clients:device-bytes") > 0.0);
            assert!(number("clients:cpus-used") > 0.0);
            assert_eq!(fact("clients:place"), Some(self.fact));
            let kernel = fact("clients:kernel").unwrap();
            assert!(!measurement.kernel.starts_with(kernel), "{kernel}");
            let is_client_kernel = kernel.starts_with("7.2.");
            assert_eq!(
                is_client_kernel,
                self.clients == Clients::Guest2,
                "{kernel}"
            );
            assert_eq!(fact("net:client"), None);
            assert!(!fact("net:server").unwrap().contains("veth"));
            for key in ["round-trip-us", "open-noted-us", "close-noted-us"] {
                assert!(number(&format!("clients:{key}")) > 0.0, "{key}");
            }
            // An arm's sysctl is set in the guest of the servers.
            let planned = &run.plan.arms[usize::from(attempt.trial.arm == "large")].sysctl;
            assert_eq!(
                facts.sysctls.get("net.core.somaxconn"),
                planned.get("net.core.somaxconn")
            );
            measured += 1;
        }
        measured
    }
}

/// Whether clients can run on this host; if not, reports that the test is skipped.
pub(crate) fn can_have_clients() -> bool {
    let output = bakeoff(Path::new("."), &["clients", "--try"]);
    if !output.status.success() {
        let why = stderr(&output);
        base::skip::skip(&format!("no clients on this host: {}", why.trim()));
    }
    output.status.success()
}

/// A script that runs the host's QEMU for questions about QEMU, and in place of a guest waits
/// forever.
fn silent_qemu(dir: &Path) -> PathBuf {
    let path = dir.join("qemu");
    let script = "#!/bin/sh\n\
        case \" $* \" in *' -netdev '*) while :; do sleep 1; done;; esac\n\
        exec qemu-system-x86_64 \"$@\"\n";
    write_script(&path, script);
    path
}

fn run_silent(place: &Place, dir: &Path) -> Child {
    fs::write(dir.join("plan.toml"), place.plan()).unwrap();
    command(dir, &["run", "plan.toml", "--qemu"])
        .arg(silent_qemu(dir))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The network namespaces of all processes on this host.
fn namespaces() -> Vec<PathBuf> {
    let all = Path::new("/proc").read_dir().unwrap().flatten();
    all.filter_map(|entry| fs::read_link(entry.path().join("ns/net")).ok())
        .collect()
}

/// Starts a run and ends it by each signal once `find_namespace` has found the namespace of its
/// processes. That namespace must then disappear.
fn check_signals(place: &Place, find_namespace: impl Fn(&Path) -> Option<PathBuf>) {
    let temp = tempfile::tempdir().unwrap();
    // Without symbolic links, as /proc shows paths.
    let dir = temp.path().canonicalize().unwrap();
    for name in ["KILL", "INT"] {
        let mut run = run_silent(place, &dir);
        let namespace = loop {
            if let Some(namespace) = find_namespace(&dir) {
                break namespace;
            }
            let ended = run.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "{name}: ended early: {}",
                rest_of_stderr(&mut run)
            );
            thread::sleep(Duration::from_millis(20));
        };
        signal(name, run.id());
        run.wait().unwrap();
        wait_for_the_end_of_all(&dir);
        let of_test = fs::read_link("/proc/self/ns/net").unwrap();
        while namespace != of_test && namespaces().contains(&namespace) {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn clients_on_this_host_end_with_bakeoff_however_it_ends() {
    if !can_boot() || !can_have_clients() {
        return;
    }
    check_signals(&ON_HOST, |dir| {
        let clients = processes(dir, "--queues");
        processes(dir, "-netdev").first()?;
        let namespace = fs::read_link(clients.first()?.join("ns/net")).ok()?;
        let of_test = fs::read_link("/proc/self/ns/net").unwrap();
        assert_ne!(namespace, of_test, "clients are in a separate namespace");
        Some(namespace)
    });
}

#[test]
fn a_guest_for_clients_ends_with_bakeoff_however_it_ends() {
    if !can_boot() {
        return;
    }
    check_signals(&IN_GUEST, |dir| {
        let has_both = processes(dir, "-netdev").len() == 2;
        has_both.then(|| fs::read_link("/proc/self/ns/net").unwrap())
    });
}

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

/// Measures one trial, and interrupts the run in the next. Nothing may be left running.
pub(crate) fn check_interrupted(place: &Place, mut program: Command) {
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
#[ignore = "boots 2 guests: make test-all"]
fn clients_on_this_host_need_only_user_namespaces() {
    if !can_boot() || !can_have_clients() {
        return;
    }
    let tried = without_rights().args(["clients", "--try"]).output();
    match tried {
        Ok(tried) if tried.status.success() => check_interrupted(&ON_HOST, without_rights()),
        Ok(tried) => {
            let why = stderr(&tried);
            base::skip::skip(&format!("no user namespaces here: {}", why.trim()));
            check_interrupted(&ON_HOST, Command::new(env!("CARGO_BIN_EXE_bakeoff")));
        }
        Err(_) => base::skip::skip("program not installed: setpriv"),
    }
}

#[test]
#[ignore = "boots 6 guests: make test-all"]
fn comparisons_with_clients_outside_the_guest_complete() {
    if !can_boot() {
        return;
    }
    let _lane = wall_clock_lane();
    for place in [ON_HOST, IN_GUEST] {
        if place.clients == Clients::Host && !can_have_clients() {
            continue;
        }
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap();
        run_to_end(&dir, &place.plan());
        // More than two if the host was busy and a block ran again.
        assert!(place.check(&dir) >= 2);
    }
}
