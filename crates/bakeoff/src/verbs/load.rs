//! `load`: the load generator alone, on a server that is there already.

mod files;
mod first;
mod json;
mod list;
mod live;
mod order;
mod outcome;
mod ports;
mod site;
mod summary;
mod trust;
mod typed;
mod url;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use ::load::climb::{self, Rung};
use ::load::drive;
use anyhow::Result;

use super::{End, print_json};
use crate::cli::load::LoadArgs;
use live::Live;
use order::{Course, Order};
use outcome::{Outcome, Run, Search};

/// Runs the load and says what the clients saw.
pub(super) fn load(args: &LoadArgs, json: bool) -> Result<End> {
    let order = order::read(args)?;
    let stop = super::watch_signals()?;
    let began = SystemTime::now();
    let mut live = Live::new(&order.traffic, json);
    let outcome = run(&order, &stop, &mut live);
    live.close();
    let outcome = outcome?;
    if json {
        print_json(&json::value(&order, &outcome))?;
    } else {
        print!("{}", summary::text(&order, &outcome));
    }
    if let Some(path) = &args.hdr {
        files::write_hdr(path, &outcome, began)?;
    }
    if let Some(path) = &args.timeline {
        files::write_timeline(path, &outcome)?;
    }
    Ok(End::Done)
}

fn run(order: &Order, stop: &AtomicBool, live: &mut Live) -> Result<Outcome> {
    let traffic = &order.traffic;
    if matches!(order.course, Course::Ramp(_)) {
        live.forget_connections();
    }
    let on_tick = &mut |tick| live.tick(tick);
    let with_levels = |rungs: Vec<Rung>| {
        let run = |rung: Rung| Run::new(Some(rung.level), rung.result, traffic);
        rungs.into_iter().map(run).collect()
    };
    let (runs, search) = match &order.course {
        Course::Once => {
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
    })
}
