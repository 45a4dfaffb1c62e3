//! The command line of the load generator, `bakeoff load`: reads the options, runs the load, and
//! prints the result.
//!
//! ```text
//! LoadArgs -> Job (valid, on a server that responds) -> Outcome -> summary, JSON, files
//! ```
//! It does not depend on kernels or plans.

mod args;
mod channel;
mod coordinator;
mod format;
mod job;
mod json;
mod mistakes;
mod options;
mod outcome;
pub(crate) mod output_files;
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
use coordinator::ReadyWorker;
use job::{Job, Mode};
use outcome::{Outcome, Run, Search};
use progress::Progress;

/// Runs the load and prints its result. If no request succeeded, it prints the result and returns
/// an error.
pub fn run(args: &LoadArgs, json: bool) -> Result<End> {
    if let Some(at) = args.worker {
        let secret = job::secret(args)?;
        worker::serve_coordinators(at, &secret, &build_id::build(), &*watch_signals()?)?;
        return Ok(End::Done);
    }
    let mut job = job::read(args)?;
    // Until `watch_signals` a signal kills bakeoff, because there is no result yet.
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
        Mode::Single => run_single(&job, &stop, on_tick),
        Mode::Ramp(levels) => run_ramp(&job, levels, &stop, on_tick),
        Mode::Capacity(limit) => search_capacity(&job, *limit, &stop, on_tick),
        Mode::Hosts(_) => run_on_hosts(ready, &job, &stop, on_tick),
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
        // Client hosts were lost with their part of the load; the result names them.
        Ok(End::Refused)
    }
}

type OnTick<'t> = &'t mut dyn FnMut(Tick);

fn run_single(job: &Job, stop: &AtomicBool, on_tick: OnTick<'_>) -> Result<Outcome> {
    let result = run::run_at(&job.traffic, clock::now_ns(), stop, on_tick)?;
    let run = Run::new(None, result, &job.traffic);
    Ok(Outcome::new(vec![run], stop))
}

fn run_ramp(
    job: &Job,
    levels: &[Level],
    stop: &AtomicBool,
    on_tick: OnTick<'_>,
) -> Result<Outcome> {
    let steps = ramp::run(&job.traffic, levels, stop, &mut || {}, on_tick)?;
    Ok(Outcome::new(runs(steps, &job.traffic), stop))
}

fn search_capacity(
    job: &Job,
    limit: Limit,
    stop: &AtomicBool,
    on_tick: OnTick<'_>,
) -> Result<Outcome> {
    let capacity = ramp::capacity(&job.traffic, limit, stop, on_tick)?;
    let search = Search::new(limit, &capacity);
    Ok(Outcome {
        search: Some(search),
        ..Outcome::new(runs(capacity.steps, &job.traffic), stop)
    })
}

fn runs(steps: Vec<Step>, traffic: &Traffic) -> Vec<Run> {
    let mut runs = Vec::new();
    for Step { level, result } in steps {
        runs.push(Run::new(Some(level), result, traffic));
    }
    runs
}

/// Runs the load from other hosts, as one run.
fn run_on_hosts(
    ready: Vec<ReadyWorker>,
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
    let loss_lines = outcome::loss_lines(&workers);
    ensure!(
        result.window_ns > 0,
        "no worker has a result:\n{}",
        loss_lines.join("\n")
    );
    let mut run = Run::new(None, result, &job.traffic);
    run.warnings.splice(0..0, loss_lines);
    Ok(Outcome {
        workers,
        ..Outcome::new(vec![run], stop)
    })
}
