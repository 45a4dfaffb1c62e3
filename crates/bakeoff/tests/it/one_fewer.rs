//! One client fewer, on a fake machine, in simulated time. It is known which arms depend on their
//! clients.

use std::path::Path;

use bakeoff::lab::Finish;
use record::journal;
use record::journal::Event;
use record::load_path::{ClientUnit, OneFewerOutcome};
use record::verdict::limit::{Limit, LimitSign};

use crate::simulated_lab::{World, judged, read_plan};

/// Two systems on the network, with clients on this many hosts.
fn plan_text(hosts: u32, line: &str) -> String {
    let hosts: Vec<String> = (1..=hosts)
        .map(|host| format!("ssh:client{host}"))
        .collect();
    format!(
        r#"
title = "two systems and their clients"
baseline = "old"
[machine]
kind = "url"
clients = {hosts:?}
{line}
[arm.old]
url = "http://192.0.2.1"
[arm.new]
url = "http://192.0.2.2"
[[workload]]
kind = "http"
connections = 8
window = "1s"
[design]
margin = "2%"
min_blocks = 4
max_blocks = 4
seed = 11
"#
    )
}

/// A world whose arms keep this share of their rate with one client fewer.
fn world([old, new]: [f64; 2], text: &str) -> World {
    let mut world = World::new(1.2, 0.002, &[]);
    world.plan = read_plan(text);
    world.depend_on_clients("old", old);
    world.depend_on_clients("new", new);
    world
}

/// The arms that were measured with one client fewer: name, unit of clients, number of units left.
fn measured(dir: &Path) -> Vec<(String, ClientUnit, u32)> {
    let entries = journal::read(dir).unwrap();
    let measured = entries.into_iter().filter_map(|entry| match entry.event {
        Event::OneFewer {
            arm,
            outcome: OneFewerOutcome::Measured(one_fewer),
            ..
        } => Some((arm, one_fewer.unit, one_fewer.left)),
        _ => None,
    });
    measured.collect()
}

fn limits(dir: &Path) -> Vec<Option<Limit>> {
    let judgement = judged(dir);
    let summaries = judgement.arm_summaries.iter();
    summaries
        .map(|summary| summary.limit.as_ref().unwrap().limit)
        .collect()
}

#[test]
fn an_arm_that_depends_on_its_clients_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let text = plan_text(3, "");
    world([1.0, 0.7], &text)
        .run_text(dir.path(), &text, |_| false)
        .unwrap();
    let left = |arm: &str| (arm.to_string(), ClientUnit::Host, 2);
    assert_eq!(measured(dir.path()), ["old", "new"].map(left));
    assert_eq!(
        limits(dir.path()),
        [Some(Limit::Server), Some(Limit::Clients)]
    );
    let judgement = judged(dir.path());
    let limit = judgement.arm_summaries[1].limit.as_ref().unwrap();
    let [LimitSign::OneClientFewer { change, .. }] = limit.signs[..] else {
        panic!("{limit:?}")
    };
    assert!((-0.32..-0.28).contains(&change), "{change}");
    let limited = &judgement.headlines[0].limits;
    assert_eq!((limited.len(), limited[0].arm.as_str()), (1, "new"));
    // The trial with one client fewer leaves no record and is not judged.
    assert!(!dir.path().join("one-fewer").exists());
    assert_eq!(judgement.arm_summaries[1].measured, 4);
}

#[test]
fn nothing_is_measured_if_disabled_or_with_a_single_client_host() {
    for text in [plan_text(3, "one_client_fewer = false"), plan_text(1, "")] {
        let dir = tempfile::tempdir().unwrap();
        world([1.0, 0.7], &text)
            .run_text(dir.path(), &text, |_| false)
            .unwrap();
        assert_eq!(measured(dir.path()), []);
        assert_eq!(limits(dir.path()), [Some(Limit::Server); 2]);
    }
}

#[test]
fn a_run_that_is_interrupted_anywhere_measures_one_client_fewer_once() {
    let text = plan_text(2, "");
    let whole = tempfile::tempdir().unwrap();
    world([1.0; 2], &text)
        .run_text(whole.path(), &text, |_| false)
        .unwrap();
    let entries = journal::read(whole.path()).unwrap();
    let is_closed = |entry: &journal::Entry| matches!(entry.event, Event::Closed { .. });
    assert!(entries.last().is_some_and(is_closed));
    let count = entries.len() as u32;
    for stop in count - 4..count {
        let dir = tempfile::tempdir().unwrap();
        let world = world([1.0; 2], &text);
        world
            .run_text(dir.path(), &text, |entries| entries == stop)
            .unwrap();
        let finish = world.run_text(dir.path(), &text, |_| false).unwrap();
        assert_eq!(finish, Finish::Complete);
        assert_eq!(measured(dir.path()), measured(whole.path()));
    }
}
