//! Clients of a real guest on this host, in a namespace with a tap or in a guest of their own: nothing of it has a name, and
//! nothing is left afterwards.
//!
//! Under emulation and by the wall clock: figures mean nothing here, and none is looked at.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use plan::Clients;
use record::rundir::{self, TrialRecord};
use record::trial::Outcome;

const PLAN: &str = r#"
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
window = "1s"
[design]
margin = "20%"
max_blocks = 1
"#;

const HOST: &str = "\"host\"";

/// What a plan's window is in turn, while no request is begun in it.
const WINDOWS: [&str; 3] = ["\"1s\"", "\"10s\"", "\"60s\""];

fn bakeoff() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bakeoff"))
}

/// The same without rights: root's own files, and of root's capabilities only the one that mapping root into a user namespace takes.
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

fn has_qemu() -> bool {
    let has = runs(Command::new("qemu-system-x86_64").arg("--version"));
    if !has {
        skip::skip("program not installed: qemu-system-x86_64");
    }
    has
}

fn can_run() -> bool {
    if !has_qemu() {
        return false;
    }
    let tried = bakeoff().args(["clients", "--try"]).output().unwrap();
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        skip::skip(&format!("no clients on this host: {}", why.trim()));
    }
    tried.status.success()
}

fn runs(command: &mut Command) -> bool {
    let output = command.stdout(Stdio::null()).stderr(Stdio::null());
    output.status().is_ok_and(|status| status.success())
}

fn run_plan(program: Command, dir: &Path) -> Child {
    run_with(HOST, WINDOWS[0], program, dir)
}

fn run_with(clients: &str, window: &str, mut program: Command, dir: &Path) -> Child {
    let plan = PLAN.replace(HOST, clients).replace("\"1s\"", window);
    fs::write(dir.join("plan.toml"), plan).unwrap();
    program.args(["run", "plan.toml"]).current_dir(dir);
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    program.spawn().unwrap()
}

/// A run to its end, begun or gone on with. Guests of a busy host may stand still for a whole window: the next is longer.
fn run_to_end(clients: &str, program: fn() -> Command, dir: &Path) -> Output {
    let mut windows = WINDOWS.into_iter();
    loop {
        let window = windows.next().expect("answers within the longest window");
        let run = run_with(clients, window, program(), dir);
        let done = run.wait_with_output().unwrap();
        let recorded = rundir::load(&dir.join("runs/plan"), &workload::check).unwrap();
        let stood_still = |one: &TrialRecord| matches!(&one.outcome, Outcome::Void(void) if void.detail.contains(": 0 requests begun"));
        if !recorded.attempts.iter().any(stood_still) {
            return done;
        }
        fs::remove_dir_all(dir.join("runs")).unwrap();
    }
}

/// Processes of a run's, by a word of their command line: they work in its directory.
fn processes(dir: &Path, word: &str) -> Vec<PathBuf> {
    let is_one = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == dir)
            && words.any(|own| String::from_utf8_lossy(own).contains(word))
    };
    let all = Path::new("/proc").read_dir().unwrap().flatten();
    all.map(|entry| entry.path()).filter(is_one).collect()
}

/// The network namespaces that processes of this host are in.
fn namespaces() -> Vec<PathBuf> {
    let all = Path::new("/proc").read_dir().unwrap().flatten();
    all.filter_map(|entry| fs::read_link(entry.path().join("ns/net")).ok())
        .collect()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    // A cache that is empty is filled first, which takes minutes.
    let limit = Duration::from_secs(900);
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a trial's clients, and ends the run with a signal: nothing is left of it, and it goes on when asked.
fn check_that_nothing_is_left_after(signal: &str, dir: &Path) {
    let mut run = run_plan(bakeoff(), dir);
    let mut seen = None;
    wait_for("clients with their guest", || {
        assert!(run.try_wait().unwrap().is_none(), "{signal}: ended early");
        let clients = processes(dir, "--queues");
        let guests = processes(dir, "-netdev");
        let both = clients.first().filter(|_| !guests.is_empty());
        seen = both.and_then(|one| fs::read_link(one.join("ns/net")).ok());
        seen.is_some()
    });
    let namespace = seen.unwrap();
    assert!(namespaces().contains(&namespace));
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(namespace, own, "clients are in a namespace of their own");
    let own = run.id().to_string();
    assert!(runs(Command::new("kill").args(["-s", signal, &own])));
    run.wait().unwrap();
    // Who is killed has no time to wait for what the kernel ends after it.
    wait_for("everything to end with bakeoff", || {
        processes(dir, "--queues").is_empty()
            && processes(dir, "-netdev").is_empty()
            && !namespaces().contains(&namespace)
    });
}

fn check_run(done: &Output, dir: &Path, (place, clients, words): (&str, Clients, &str)) {
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(processes(dir, "--queues").is_empty() && processes(dir, "-netdev").is_empty());
    let run = rundir::load(&dir.join("runs/plan"), &workload::check).unwrap();
    assert_eq!(run.opening.clients, Some(clients));
    let machine = &report::machine(&run.opening.machine);
    assert!(machine.contains(words), "{machine}");
    let mut measured = BTreeSet::new();
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
        assert_eq!(fact("clients:place"), Some(place));
        let kernel = fact("clients:kernel").unwrap();
        assert!(!measurement.kernel.starts_with(kernel), "{kernel}");
        assert!(place == "host" || kernel.starts_with("6.12."), "{kernel}");
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
        measured.insert(attempt.trial.arm.clone());
    }
    assert_eq!(measured.len(), 2, "{:?}", run.attempts);
}

const ON_HOST: (&str, Clients, &str) = ("host", Clients::Host, "clients on this host");

const IN_GUEST: (&str, Clients, &str) = (
    "guest2",
    Clients::Guest2,
    "clients in a guest of their own, Linux 6.12.",
);

/// Another kernel than the arms'.
const GUEST2: &str = "\"guest2\"\nclient_kernel = \"debian:trixie/6.12\"";

#[test]
fn clients_in_a_guest_of_their_own_leave_nothing_behind_however_the_run_ends() {
    if !has_qemu() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    for signal in ["KILL", "INT"] {
        let mut run = run_with(GUEST2, WINDOWS[0], bakeoff(), &dir);
        wait_for("both guests", || {
            assert!(run.try_wait().unwrap().is_none(), "{signal}: ended early");
            processes(&dir, "-netdev").len() == 2
        });
        let own = run.id().to_string();
        assert!(runs(Command::new("kill").args(["-s", signal, &own])));
        run.wait().unwrap();
        wait_for("everything to end with bakeoff", || {
            processes(&dir, "-netdev").is_empty()
        });
    }
    check_run(&run_to_end(GUEST2, bakeoff, &dir), &dir, IN_GUEST);
}

#[test]
fn clients_on_this_host_leave_nothing_behind_however_the_run_ends() {
    if !can_run() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    // Free of symbolic links, as /proc shows it.
    let dir = temp.path().canonicalize().unwrap();
    check_that_nothing_is_left_after("KILL", &dir);
    check_that_nothing_is_left_after("INT", &dir);
    check_run(&run_to_end(HOST, bakeoff, &dir), &dir, ON_HOST);
}

#[test]
fn clients_on_this_host_need_no_rights_but_user_namespaces() {
    if !can_run() {
        return;
    }
    let tried = without_rights().args(["clients", "--try"]).output();
    match tried {
        Ok(tried) if tried.status.success() => {}
        Ok(tried) => {
            let why = String::from_utf8_lossy(&tried.stderr);
            skip::skip(&format!("no user namespaces here: {}", why.trim()));
            return;
        }
        Err(_) => {
            skip::skip("program not installed: setpriv");
            return;
        }
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    check_run(&run_to_end(HOST, without_rights, &dir), &dir, ON_HOST);
}
