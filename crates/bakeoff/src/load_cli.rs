//! The command line of the load generator, `bakeoff load`: what was typed, the run or runs, and
//! what is printed of them.
//!
//! ```text
//! LoadArgs -> Job (valid, on a server that responds) -> Outcome -> summary, JSON, files
//! ```
//! It knows no kernels and no plans.

mod args;
mod channel;
mod coordinator;
mod format;
mod job;
mod json;
mod mistakes;
mod options;
mod outcome;
mod output_files;
mod ports;
mod progress;
mod summary;
mod url_list;
mod worker;
mod worker_spec;

use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use anyhow::{Result, ensure};
use load::ramp::{self, Level, Limit, Step};
use load::run;
use load::traffic::Traffic;
use load::{clock, merge};
use record::load::{LoadResult, Tick};

use crate::commands::{End, watch_signals};
use crate::{build_id, out};

pub use args::{Engine, LoadArgs};
use coordinator::Ready;
use job::{Job, Mode};
use outcome::{Outcome, Run, Search};
use progress::Progress;

/// Runs the load and says what the clients saw. A load of which no request succeeded is an error,
/// whose result has been said too.
pub fn run(args: &LoadArgs, json: bool) -> Result<End> {
    if let Some(at) = args.worker {
        let secret = job::secret(args)?;
        worker::serve_coordinators(at, &secret, &build_id::build(), &*watch_signals()?)?;
        return Ok(End::Done);
    }
    let mut job = job::read(args)?;
    // Until here a signal ends bakeoff as it ends any program: nothing is there to be kept.
    let ready = match &job.mode {
        Mode::Hosts(addresses) => {
            let secret = job::secret(args)?;
            coordinator::prepare_all(addresses, &secret, &build_id::build(), &job)?
        }
        Mode::Single | Mode::Ramp(_) | Mode::Capacity(_) => Vec::new(),
    };
    let stop = watch_signals()?;
    let began = SystemTime::now();
    let mut progress = Progress::new(json);
    let on_tick = &mut |tick| progress.tick(&tick);
    let outcome = match &job.mode {
        Mode::Single => single_run(&job, &stop, on_tick),
        Mode::Ramp(levels) => ramp_runs(&job, levels, &stop, on_tick),
        Mode::Capacity(limit) => capacity_search(&job, *limit, &stop, on_tick),
        Mode::Hosts(_) => hosts_run(ready, &job, &stop, on_tick),
    };
    progress.close();
    let outcome = outcome?;
    if json {
        let text = serde_json::to_string_pretty(&json::value(&job, &outcome))?;
        out::text(&(text + "\n"));
    } else {
        out::text(&summary::text(&job, &outcome));
    }
    if let Some(output) = job.hdr.take() {
        output_files::write_hdr(output, &outcome, began)?;
    }
    if let Some(output) = job.timeline.take() {
        output_files::write_timeline(output, &outcome)?;
    }
    ensure!(
        !outcome.has_no_success(),
        "no request succeeded (the result above says how they failed)"
    );
    if outcome.is_whole() {
        Ok(End::Done)
    } else {
        // Client hosts were lost, and their part with them; the result says which.
        Ok(End::Refused)
    }
}

type OnTick<'t> = &'t mut dyn FnMut(Tick);

fn single_run(job: &Job, stop: &AtomicBool, on_tick: OnTick<'_>) -> Result<Outcome> {
    let result = run::run_at(&job.traffic, clock::now_ns(), stop, on_tick)?;
    let run = Run::new(None, result, &job.traffic);
    Ok(Outcome::of_runs(vec![run], stop))
}

fn ramp_runs(
    job: &Job,
    levels: &[Level],
    stop: &AtomicBool,
    on_tick: OnTick<'_>,
) -> Result<Outcome> {
    let steps = ramp::run(&job.traffic, levels, stop, &mut || {}, on_tick)?;
    Ok(Outcome::of_runs(runs(steps, &job.traffic), stop))
}

fn capacity_search(
    job: &Job,
    limit: Limit,
    stop: &AtomicBool,
    on_tick: OnTick<'_>,
) -> Result<Outcome> {
    let found = ramp::capacity(&job.traffic, limit, stop, on_tick)?;
    let search = Search::new(limit, &found);
    Ok(Outcome {
        search: Some(search),
        ..Outcome::of_runs(runs(found.steps, &job.traffic), stop)
    })
}

fn runs(steps: Vec<Step>, traffic: &Traffic) -> Vec<Run> {
    let mut runs = Vec::new();
    for Step { level, result } in steps {
        runs.push(Run::new(Some(level), result, traffic));
    }
    runs
}

/// The load from other hosts, as one run.
fn hosts_run(
    ready: Vec<Ready>,
    job: &Job,
    stop: &AtomicBool,
    on_tick: OnTick<'_>,
) -> Result<Outcome> {
    let workers = coordinator::run(ready, stop, on_tick)?;
    let results: Vec<LoadResult> = workers
        .iter()
        .flat_map(|worker| worker.result.clone())
        .collect();
    let result = merge::merge(&results);
    let losses = outcome::losses(&workers);
    ensure!(
        result.window_ns > 0,
        "no worker has a result:\n{}",
        losses.join("\n")
    );
    let mut run = Run::new(None, result, &job.traffic);
    run.warnings.splice(0..0, losses);
    Ok(Outcome {
        workers,
        ..Outcome::of_runs(vec![run], stop)
    })
}
