//! The emulated box with two network cards and clients on other hosts.

use std::fs;
use std::path::Path;

use plan::Clients;
use record::evidence::{EvidenceFile, Sample};
use record::journal::Event;
use record::load_path::{CeilingOutcome, Side};
use record::rundir::{Run, TrialRecord};
use record::trial::{Measurement, Outcome};

use super::boxed::{self, EmulatedBox};
use super::lab::{self, CLIENTS};
use crate::real_guests::wall_clock_lane;
use crate::simulated_lab::load_run;

/// Addresses of the two cards.
const ADDRESSES: [&str; 2] = ["10.0.2.15:80", "10.1.0.15:80"];

#[test]
#[ignore = "boots 10 guests: make test-all"]
fn client_hosts_load_a_box_through_two_network_cards() {
    if !boxed::can_start() {
        return;
    }
    if let Some(why) = lab::obstacle() {
        base::skip::skip(why);
        return;
    }
    let _lane = wall_clock_lane();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let emulated = EmulatedBox::start_with_hosts(&dir);
    emulated.wait_for_own_system(1);
    check_refusals(&emulated);
    check_run(&emulated);
    check_clients_here(&emulated);
}

/// Refusals before a kernel is loaded.
fn check_refusals(emulated: &EmulatedBox) {
    let before = emulated.boot_id();
    let plan = fs::read_to_string(emulated.dir.join("clients.toml")).unwrap();
    let refused = |(from, to): (&str, &str), want: &str| {
        assert!(plan.contains(from), "{from}");
        fs::write(emulated.dir.join("bad.toml"), plan.replace(from, to)).unwrap();
        let (status, text) = emulated.bakeoff(&["run", "bad.toml"]);
        println!("{text}");
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains(want), "{want}: {text}");
    };
    let cards = "interfaces = [\"eth0\", \"eth1\"]";
    refused(
        (cards, "interfaces = [\"eth9\", \"eth1\", \"eth2\"]"),
        "interfaces: no such interface: eth9 (there are: lo, eth0, eth1, eth2); interface eth2 is down (there: ip link set eth2 up)",
    );
    refused(
        ("ssh:client2", "ssh:root@box"),
        "the box as a host of its own clients: \"root@box\"",
    );
    refused(
        ("ssh:client2", "ssh:alias"),
        "the box as a host of its own clients: alias (name another host",
    );
    refused(
        ("ssh:client2", "ssh:client1"),
        "a host for clients twice: \"ssh:client1\"",
    );
    refused(
        ("ssh:client2", "ssh:far"),
        "far does not reach the box's servers at eth0 10.0.2.15, eth1 10.1.0.15: 10.0.2.15: ",
    );
    refused(
        ("web-static\"\nserver", "web-soak\"\nserver"),
        "a workload that hosts cannot share: web-soak",
    );
    assert_eq!(emulated.boot_id(), before);
}

fn check_run(emulated: &EmulatedBox) {
    // The run measures the ceiling and the first block.
    let (status, text) = emulated.run_until_measured("clients.toml", &[], 2);
    println!("{text}");
    assert_eq!(status, Some(2), "{text}");
    emulated.check_home();
    let run = load_run(&emulated.dir.join("runs/clients"));
    assert_eq!(run.opening.clients, Some(Clients::Hosts));
    let machine = judge::report::machine(&run.opening.machine);
    let want = "servers at eth0 10.0.2.15 by e1000e and eth1 10.1.0.15 by e1000e, clients by ssh on client1, client2";
    assert!(machine.ends_with(want), "{machine}");
    let mut measured = 0;
    for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
        // On a busy host the emulator may lose a boot.
        let (Outcome::Measured(measurement), Some(facts)) = (&attempt.outcome, facts) else {
            continue;
        };
        let fact = |key: &str| {
            let value = facts.values.get(key);
            value
                .unwrap_or_else(|| panic!("{key}: {:?}", facts.values))
                .as_str()
        };
        assert_eq!(fact("clients:place"), "ssh");
        assert_eq!(fact("box:card:eth1:address"), "10.1.0.15/24");
        assert_eq!(fact("box:card:eth1:driver"), "e1000e");
        let by_host = CLIENTS.map(|host| {
            let ok = fact(&format!("clients:{host}:ok"));
            ok.parse::<u64>().unwrap()
        });
        let load = measurement.load.as_ref().unwrap();
        assert!(by_host.iter().all(|ok| *ok > 0), "{by_host:?}");
        assert_eq!(by_host.iter().sum::<u64>(), load.ok);
        check_cards(measurement);
        measured += 1;
    }
    assert!(measured >= 2, "{measured}");
    check_ceiling(&run);
    check_counters(&emulated.dir.join("runs/clients"));
}

/// Both cards served, by the clients' counts and by the box's counters.
fn check_cards(measurement: &Measurement) {
    let load = measurement.load.as_ref().unwrap();
    let by_address: Vec<&str> = load.ok_by_address.keys().map(String::as_str).collect();
    assert_eq!(by_address, ADDRESSES);
    assert_eq!(load.ok_by_address.values().sum::<u64>(), load.ok);
    let path = measurement.path.as_ref().unwrap();
    assert!(!path.is_shared);
    let sides: Vec<Side> = path.ends.iter().map(|end| end.side).collect();
    assert_eq!(sides, [Side::Clients, Side::Clients, Side::Server]);
    let cards = path.ends[2].links.iter();
    let sent = cards.map(|link| link.sent_bytes).filter(|sent| *sent > 0);
    let sent: Vec<u64> = sent.collect();
    assert_eq!(sent.len(), 2, "{sent:?}");
    // The cards sent what the clients received, and headers. The windows of box and clients differ
    // by the time to signal their ends, so a request at an end may be in only one of them.
    let total: u64 = sent.iter().sum();
    let ratio = total as f64 / load.body_bytes as f64;
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}

/// The clients of both hosts measured a null server on the box.
fn check_ceiling(run: &Run) {
    let mut ceilings = run.entries.iter().filter_map(|entry| match &entry.event {
        Event::Ceiling { outcome, .. } => Some(outcome),
        _ => None,
    });
    let Some(CeilingOutcome::Measured(ceiling)) = ceilings.next() else {
        panic!("{:?}", run.entries)
    };
    assert!(ceiling.requests_per_s > 0.0 && !ceiling.is_shared);
    assert!(ceilings.next().is_none());
}

/// Each request has its own connection, and the arm's kernel counted the connections that it
/// accepted.
fn check_counters(run: &Path) {
    let trials = fs::read_dir(run.join("trials")).unwrap();
    for dir in trials.map(|entry| entry.unwrap().path()) {
        // The last attempt was interrupted.
        let Ok(text) = fs::read_to_string(dir.join("trial.json")) else {
            continue;
        };
        let record: TrialRecord = serde_json::from_str(&text).unwrap();
        let Outcome::Measured(measurement) = &record.outcome else {
            continue;
        };
        let load = measurement.load.as_ref().unwrap();
        let samples = fs::read_to_string(dir.join(EvidenceFile::Samples.name())).unwrap();
        let mut accepted = 0;
        for line in samples.lines() {
            let sample: Sample = serde_json::from_str(line).unwrap();
            accepted += sample.tcp.get("TcpPassiveOpens").copied().unwrap_or(0);
        }
        let planned = load.planned;
        println!(
            "{}: {planned} requests planned, {accepted} connections accepted",
            record.trial
        );
        // The box counts between the signals for the begin and the end of the window, which are
        // late on a busy host. The clients continue until the last response that counts.
        assert!(
            (planned / 2..=2 * planned).contains(&accepted),
            "{accepted} {planned}"
        );
    }
}

/// Clients on this host, and a load that hosts cannot share.
fn check_clients_here(emulated: &EmulatedBox) {
    let (status, text) = emulated.run_until_measured("here.toml", &[], 1);
    println!("{text}");
    assert_eq!(status, Some(2), "{text}");
    emulated.check_home();
    let run = load_run(&emulated.dir.join("runs/here"));
    assert_eq!(run.opening.clients, Some(Clients::Host));
    let attempts = run.attempts.iter();
    let curves = attempts.filter_map(|attempt| match &attempt.outcome {
        Outcome::Measured(measurement) => Some(measurement.curves.len()),
        Outcome::Void(_) | Outcome::Skipped(_) => None,
    });
    let curves: Vec<usize> = curves.collect();
    assert!(
        curves.iter().all(|count| *count == 3) && !curves.is_empty(),
        "{curves:?}"
    );
    let facts = run.facts.iter().flatten().next().unwrap();
    assert_eq!(facts.values["clients:place"], "host");
}
