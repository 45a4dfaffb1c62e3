//! One client fewer, on a fake machine whose arms are known to hang on their clients or not; in simulated time.

use std::path::Path;

use bakeoff::lab::Finish;
use plan::Checks;
use record::journal;
use record::journal::Event;
use record::load_path::{ClientUnit, OneFewerOutcome};
use record::verdict::limit::{Limit, LimitSign};

use crate::simulated_lab::{World, judged};

/// Two systems on the network, with clients on so many hosts.
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

/// Arms of which this is left with one client fewer.
fn world([old, new]: [f64; 2], text: &str) -> World {
    let mut world = World::new(1.2, 0.002, &[]);
    world.plan = plan::read(
        "plan.toml",
        text,
        Path::new(""),
        Checks::of_the_past(&workload::check),
    )
    .unwrap();
    world.hang_on_clients("old", old);
    world.hang_on_clients("new", new);
    world
}

/// Arms that were measured so, with the client that was left out and how many were left.
fn measured(dir: &Path) -> Vec<(String, ClientUnit, u32)> {
    let entries = journal::read(dir).unwrap();
    let of = |event: Event| match event {
        Event::OneFewer {
            arm,
            outcome: OneFewerOutcome::Measured(own),
            ..
        } => Some((arm, own.unit, own.left)),
        _ => None,
    };
    entries
        .into_iter()
        .filter_map(|entry| of(entry.event))
        .collect()
}

fn limits(dir: &Path) -> Vec<Option<Limit>> {
    let judgement = judged(dir);
    let summaries = judgement.arm_summaries.iter();
    summaries
        .map(|own| own.limit.as_ref().unwrap().limit)
        .collect()
}

#[test]
fn an_arm_that_hangs_on_its_clients_is_named() {
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
    let own = judgement.arm_summaries[1].limit.as_ref().unwrap();
    let [LimitSign::OneClientFewer { change, .. }] = own.signs[..] else {
        panic!("{own:?}")
    };
    assert!((-0.32..-0.28).contains(&change), "{change}");
    let said = &judgement.headlines[0].limits;
    assert_eq!((said.len(), said[0].arm.as_str()), (1, "new"));
    // The trial with a client fewer leaves no record, and none of those that are judged counts it.
    assert!(!dir.path().join("one-fewer").exists());
    assert_eq!(judgement.arm_summaries[1].measured, 4);
}

#[test]
fn it_costs_nothing_where_it_is_turned_off_or_no_client_can_be_missed() {
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
fn a_run_that_is_stopped_anywhere_measures_it_once() {
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
