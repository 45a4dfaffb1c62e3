//! `load`: the load generator alone, on a server that is there already.

mod files;
mod first;
mod follower;
mod json;
mod leader;
mod list;
mod live;
mod order;
mod outcome;
mod ports;
mod share;
mod site;
mod summary;
mod trust;
mod typed;
mod url;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use ::load::climb::{self, Rung};
use ::load::{drive, merge};
use anyhow::{Result, ensure};

use super::{End, print_json};
use crate::cli::load::LoadArgs;
use crate::out;
use leader::Ready;
use live::Live;
use order::{Course, Order};
use outcome::{Outcome, Run, Search};

/// Runs the load and says what the clients saw.
pub(super) fn load(args: &LoadArgs, json: bool) -> Result<End> {
    if let Some(at) = args.follow {
        let secret = order::secret(args)?;
        follower::follow(at, &secret, super::watch_signals()?.as_ref())?;
        return Ok(End::Done);
    }
    let mut order = order::read(args)?;
    // Until here a signal ends bakeoff as it ends any program: nothing is there to be kept.
    let ready = match &order.course {
        Course::Hosts(addresses) => {
            let secret = order::secret(args)?;
            leader::prepare_all(addresses, &secret, &order)?
        }
        Course::Once | Course::Ramp(_) | Course::Capacity(_) => Vec::new(),
    };
    let stop = super::watch_signals()?;
    let began = SystemTime::now();
    let mut live = Live::new(json);
    let outcome = match &order.course {
        Course::Hosts(_) => hosts(ready, &order, &stop, &mut live),
        Course::Once | Course::Ramp(_) | Course::Capacity(_) => run(&order, &stop, &mut live),
    };
    live.close();
    let outcome = outcome?;
    if json {
        print_json(&json::value(&order, &outcome))?;
    } else {
        out::text(&summary::text(&order, &outcome));
    }
    if let Some(output) = order.hdr.take() {
        files::write_hdr(output, &outcome, began)?;
    }
    if let Some(output) = order.timeline.take() {
        files::write_timeline(output, &outcome)?;
    }
    if outcome.is_whole() {
        Ok(End::Done)
    } else {
        Ok(End::Refused)
    }
}

/// The load from other hosts, as one run.
fn hosts(ready: Vec<Ready>, order: &Order, stop: &AtomicBool, live: &mut Live) -> Result<Outcome> {
    let on_tick = &mut |tick| live.tick(&tick);
    let followers = leader::lead(ready, stop, on_tick)?;
    let results: Vec<_> = followers
        .iter()
        .filter_map(|follower| follower.result.as_ref().ok().cloned())
        .collect();
    let result = merge::merge(&results);
    ensure!(
        result.window_ns > 0,
        "no follower has a result:\n{}",
        leader::losses(&followers).join("\n")
    );
    let mut run = Run::new(None, result, &order.traffic);
    run.warnings.splice(0..0, leader::losses(&followers));
    Ok(Outcome {
        runs: vec![run],
        search: None,
        ended_early: stop.load(Ordering::Relaxed),
        followers,
    })
}

fn run(order: &Order, stop: &AtomicBool, live: &mut Live) -> Result<Outcome> {
    let traffic = &order.traffic;
    let on_tick = &mut |tick| live.tick(&tick);
    let with_levels = |rungs: Vec<Rung>| {
        let run = |rung: Rung| Run::new(Some(rung.level), rung.result, traffic);
        rungs.into_iter().map(run).collect()
    };
    let (runs, search) = match &order.course {
        Course::Once | Course::Hosts(_) => {
            let result = drive::run(traffic, stop, on_tick)?;
            (vec![Run::new(None, result, traffic)], None)
        }
        Course::Ramp(levels) => (
            with_levels(climb::climb(traffic, levels, stop, on_tick)?),
            None,
        ),
        Course::Capacity(limit) => {
            let found = climb::capacity(traffic, *limit, stop, on_tick)?;
            let search = Search::new(*limit, &found);
            (with_levels(found.rungs), Some(search))
        }
    };
    let ended_early = stop.load(Ordering::Relaxed);
    Ok(Outcome {
        runs,
        search,
        ended_early,
        followers: Vec::new(),
    })
}
