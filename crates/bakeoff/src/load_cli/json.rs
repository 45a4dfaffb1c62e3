//! The result as JSON. docs/howto/load.md documents the format; its version rises when a field changes its
//! meaning.

use base::latency::Latency;
use load::client_limits::{Pace, busy_shares};
use load::schedule::Schedule;
use load::traffic::{Protocol, Traffic};
use serde_json::{Map, Value, json};

use crate::load_cli::job::Job;
use crate::load_cli::outcome::{Outcome, Run, Search, Worker};
use crate::load_cli::summary::{QUANTILES, show_limit};

/// Version of the format.
const FORMAT: u32 = 3;

/// The whole result.
pub(crate) fn value(job: &Job, outcome: &Outcome) -> Value {
    json!({
        "format": FORMAT,
        "bakeoff": record::VERSION,
        "url": job.url,
        "server": job.traffic.server.to_string(),
        "load": load(&job.traffic),
        "checks": job.checks,
        "ended_early": outcome.ended_early,
        "runs": outcome.runs.iter().map(run).collect::<Vec<_>>(),
        "hosts": outcome.workers.iter().map(host).collect::<Vec<_>>(),
        "capacity": outcome.search.as_ref().map(capacity),
    })
}

fn load(traffic: &Traffic) -> Value {
    let (think, poisson) = match traffic.schedule {
        Schedule::Closed { think } => (Some(think), None),
        Schedule::Open { arrivals, .. } => {
            (None, Some(arrivals == load::schedule::Arrivals::Poisson))
        }
    };
    let streams = match traffic.protocol {
        Protocol::Http1 => None,
        Protocol::Http2 { streams } => Some(streams),
    };
    json!({
        "http2_streams": streams,
        "threads": traffic.threads.min(traffic.connections),
        "keep_alive": traffic.keep_alive,
        "think_ns": think.map(|think| think.least.as_nanos() as u64),
        "think_most_ns": think.map(|think| think.most.as_nanos() as u64),
        "poisson": poisson,
        "deadline_ns": traffic.deadline.as_nanos() as u64,
        "warmup_ns": traffic.warmup.as_nanos() as u64,
        "source_addresses": traffic.sources.len(),
        "bits_per_s": traffic.bits_per_s,
        "seed": traffic.seed,
    })
}

fn run(run: &Run) -> Value {
    let result = &run.result;
    json!({
        "connections": result.connections_asked,
        "rate_per_s": run.rate_per_s,
        "warnings": run.warnings,
        "ok_per_s": result.ok_per_s(),
        "backlog_growth_per_s": result.backlog_growth_per_s(),
        "keeps_up": run.pace.map(|pace| pace == Pace::Kept),
        "limited_by": run.pace.and_then(limited_by),
        "latency_ns": quantiles(&result.latency),
        "service_ns": quantiles(&result.service),
        "lateness_ns": quantiles(&result.lateness),
        "client_delay_ns": quantiles(&result.client_delay),
        "client_busy": busy_shares(result),
        "result": result,
    })
}

/// What limited the rate of an open loop.
fn limited_by(pace: Pace) -> Option<&'static str> {
    match pace {
        Pace::Kept => None,
        Pace::ServerBehind => Some("server"),
        Pace::TooFewConnections => Some("connections"),
    }
}

/// Quantiles of a histogram, or null if it is empty.
fn quantiles(latency: &Latency) -> Value {
    if latency.count() == 0 {
        return Value::Null;
    }
    let mut fields = Map::new();
    fields.insert("count".into(), latency.count().into());
    fields.insert("mean".into(), latency.mean_ns().into());
    for percent in QUANTILES {
        fields.insert(
            format!("p{percent}"),
            latency.quantile_ns(percent / 100.0).into(),
        );
    }
    fields.insert("max".into(), latency.max_ns().into());
    fields.into()
}

/// A worker's result, or why it is lost.
fn host(worker: &Worker) -> Value {
    json!({
        "address": worker.address,
        "start_error_ns": worker.error_ns,
        "lost": worker.result.as_ref().err(),
        "result": worker.result.as_ref().ok(),
    })
}

fn capacity(search: &Search) -> Value {
    json!({
        "limit": show_limit(search),
        "rate_per_s": search.rate_per_s,
        "ended_early": search.ended_early,
        "client_was_limit": search.client_was_limit,
    })
}
