//! The result for machines. The form is told in docs/load.md; `format` rises when a field changes
//! its meaning.

use load::schedule::Schedule;
use load::traffic::{Protocol, Traffic};
use record::latency::Latency;
use serde_json::{Map, Value, json};

use super::leader::Follower;
use super::order::Order;
use super::outcome::{Outcome, Run, Search, busy};
use super::summary::{QUANTILES, limit_words};

/// Version of the form.
const FORMAT: u32 = 2;

/// The whole result.
pub(super) fn value(order: &Order, outcome: &Outcome) -> Value {
    json!({
        "format": FORMAT,
        "bakeoff": record::VERSION,
        "url": order.url,
        "server": order.traffic.server.to_string(),
        "load": load(&order.traffic),
        "checks": order.checks,
        "ended_early": outcome.ended_early,
        "runs": outcome.runs.iter().map(run).collect::<Vec<_>>(),
        "hosts": outcome.followers.iter().map(host).collect::<Vec<_>>(),
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
        "keeps_up": run.keeps_up,
        "latency_ns": quantiles(&result.latency),
        "service_ns": quantiles(&result.service),
        "lateness_ns": quantiles(&result.lateness),
        "client_delay_ns": quantiles(&result.client_delay),
        "client_busy": busy(result),
        "result": result,
    })
}

/// Quantiles of a histogram, or nothing if it is empty.
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

/// A follower: what it saw, or why it is lost.
fn host(follower: &Follower) -> Value {
    json!({
        "address": follower.address,
        "start_error_ns": follower.error_ns,
        "lost": follower.result.as_ref().err(),
        "result": follower.result.as_ref().ok(),
    })
}

fn capacity(search: &Search) -> Value {
    json!({
        "limit": limit_words(search),
        "rate_per_s": search.rate_per_s,
        "ended_early": search.ended_early,
        "client_was_limit": search.client_was_limit,
    })
}
