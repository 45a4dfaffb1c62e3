//! Clients of a real guest on this host, in a namespace with a tap or in a guest of their own: nothing of it has a name, and
//! nothing is left afterwards.
//!
//! Under emulation and by the wall clock: figures mean nothing here, and none is looked at. Signals need processes and no boot:
//! a program that never speaks is in QEMU's place. `each_machine` boots a guest with clients at each place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use plan::Clients;
use record::rundir;
use record::trial::Outcome;

use crate::real_guests::{
    can_boot, processes, run_to_end, said, wait_for_the_end_of_all, wall_clock_lane,
};

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

/// Where clients are: as the plan has it, as the clients' own facts do, as the record does, and in words of the machine.
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

/// With another kernel than the arms'.
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

    /// Every trial that was measured had its clients here; how many were.
    pub(crate) fn check(&self, dir: &Path) -> usize {
        let run = rundir::load(&dir.join("runs/plan"), &workload::check).unwrap();
        assert_eq!(run.opening.clients, Some(self.clients));
        let machine = &judge::report::machine(&run.opening.machine);
        assert!(machine.contains(self.machine), "{machine}");
        let mut measured = 0;
        for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
            // An emulator may fail a boot now and then; what was measured must be whole.
            let (Outcome::Measured(measurement), Some(facts)) = (&attempt.outcome, facts) else {
                continue;
            };
            let load = measurement.load.as_ref().unwrap();
            assert!(load.ok > 0 && load.fault_count() == 0, "{:?}", load.faults);
            let fact = |key: &str| facts.values.get(key).map(String::as_str);
            let number = |key: &str| fact(key).and_then(|text| text.parse::<f64>().ok()).unwrap();
            // What was served came over the card; the guest has no client side.
            assert!(number("clients:device-bytes") > 0.0);
            assert!(number("clients:cpus-used") > 0.0);
            assert_eq!(fact("clients:place"), Some(self.fact));
            let kernel = fact("clients:kernel").unwrap();
            assert!(!measurement.kernel.starts_with(kernel), "{kernel}");
            let is_own = kernel.starts_with("7.2.");
            assert_eq!(is_own, self.clients == Clients::Guest2, "{kernel}");
            assert_eq!(fact("net:client"), None);
            assert!(!fact("net:server").unwrap().contains("veth"));
            for key in ["round-trip-us", "open-noted-us", "close-noted-us"] {
                assert!(number(&format!("clients:{key}")) > 0.0, "{key}");
            }
            // What an arm sets is set where the servers are.
            let asked = &run.plan.arms[usize::from(attempt.trial.arm == "large")].sysctl;
            assert_eq!(
                facts.sysctls.get("net.core.somaxconn"),
                asked.get("net.core.somaxconn")
            );
            measured += 1;
        }
        measured
    }
}

/// Whether clients can be on this host.
pub(crate) fn can_have_clients() -> bool {
    let tried = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(["clients", "--try"])
        .output()
        .unwrap();
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        base::skip::skip(&format!("no clients on this host: {}", why.trim()));
    }
    tried.status.success()
}

/// A QEMU that is asked about itself is the host's; a guest of it never says a word.
fn silent_qemu(dir: &Path) -> PathBuf {
    let path = dir.join("qemu");
    let script = "#!/bin/sh\n\
        case \" $* \" in *' -netdev '*) while :; do sleep 1; done;; esac\n\
        exec qemu-system-x86_64 \"$@\"\n";
    // Written by another process: one that tests start beside us would else hold it open, and it could not be run.
    let written = Command::new("/bin/sh")
        .args(["-c", r#"printf %s "$1" > "$0" && chmod 755 "$0""#])
        .arg(&path)
        .arg(script)
        .status();
    assert!(written.unwrap().success());
    path
}

fn run_silent(place: &Place, dir: &Path) -> Child {
    fs::write(dir.join("plan.toml"), place.plan()).unwrap();
    Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(["run", "plan.toml", "--qemu"])
        .arg(silent_qemu(dir))
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

pub(crate) fn signal(name: &str, run: &mut Child) {
    let own = run.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &own]).status();
    assert!(sent.unwrap().success());
}

/// The network namespaces that processes of this host are in.
fn namespaces() -> Vec<PathBuf> {
    let all = Path::new("/proc").read_dir().unwrap().flatten();
    all.filter_map(|entry| fs::read_link(entry.path().join("ns/net")).ok())
        .collect()
}

/// Ends a run with each signal once its guest is there; `seen` says so, and names a namespace that is to go.
fn check_signals(place: &Place, seen: impl Fn(&Path) -> Option<PathBuf>) {
    let temp = tempfile::tempdir().unwrap();
    // Free of symbolic links, as /proc shows it.
    let dir = temp.path().canonicalize().unwrap();
    for name in ["KILL", "INT"] {
        let mut run = run_silent(place, &dir);
        let namespace = loop {
            if let Some(namespace) = seen(&dir) {
                break namespace;
            }
            let ended = run.try_wait().unwrap();
            assert!(ended.is_none(), "{name}: ended early: {}", said(&mut run));
            thread::sleep(Duration::from_millis(20));
        };
        signal(name, &mut run);
        run.wait().unwrap();
        wait_for_the_end_of_all(&dir);
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        while namespace != own && namespaces().contains(&namespace) {
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
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        assert_ne!(namespace, own, "clients are in a namespace of their own");
        Some(namespace)
    });
}

#[test]
fn a_guest_for_clients_ends_with_bakeoff_however_it_ends() {
    if !can_boot() {
        return;
    }
    check_signals(&IN_GUEST, |dir| {
        let both = processes(dir, "-netdev").len() == 2;
        both.then(|| fs::read_link("/proc/self/ns/net").unwrap())
    });
}

#[test]
#[ignore = "boots 6 guests: make test-all"]
fn comparisons_with_clients_outside_the_guest_come_to_their_end() {
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
        // More where the host was busy beside the block.
        assert!(place.check(&dir) >= 2);
    }
}
