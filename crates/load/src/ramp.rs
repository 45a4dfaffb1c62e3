//! Series of runs: a ramp of rising load, and a search for the highest rate within a latency limit.
//!
//! Every step is a complete run with its own warm-up, so steps do not affect each other's figures.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use record::load::{LoadResult, Tick};

use crate::client_limits;
use crate::clock::now_ns;
use crate::run;
use crate::schedule::{self, Schedule};
use crate::traffic::{End, Traffic};

/// The load of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Level {
    /// Number of connections; the schedule stays the same.
    Connections(u32),
    /// Requests per second of an open loop.
    RatePerS(f64),
}

/// One run of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Load of the step.
    pub level: Level,
    /// What the clients saw.
    pub result: LoadResult,
}

/// A service level that a rate must meet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Quantile of latency to check, 0 to 1: 0.99 is the 99th percentile, 1 the maximum.
    pub quantile: f64,
    /// Highest latency at that quantile, from the scheduled send time.
    pub latency: Duration,
    /// Largest share of requests that may fail or stay unsent, 0 to 1.
    pub faults: f64,
}

/// Result of a capacity search.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// Highest rate within the limit, in requests per second; `None` if no tested rate was.
    pub rate_per_s: Option<f64>,
    /// Whether the user ended the search early, so that a higher rate may be within the limit.
    pub ended_early: bool,
    /// Whether the client was the bottleneck, so that the server's capacity may be higher.
    pub client_was_limit: bool,
    /// All runs in order.
    pub steps: Vec<Step>,
}

/// Runs one level after the other. If the user ends a run, it is the last one. Calls `on_step` when
/// a step starts, and `on_tick` after each second.
pub fn run(
    traffic: &Traffic,
    levels: &[Level],
    stop: &AtomicBool,
    on_step: &mut dyn FnMut(),
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Step>> {
    run_with(levels, stop, |level| {
        let traffic = at(traffic, level)?;
        on_step();
        run::run_at(&traffic, now_ns(), stop, on_tick)
    })
}

/// Like `run`, with any function that runs a level.
fn run_with(
    levels: &[Level],
    stop: &AtomicBool,
    mut run: impl FnMut(Level) -> Result<LoadResult>,
) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for &level in levels {
        let ended = run(level).map(|result| Step { level, result });
        match (ended, stop.load(Ordering::Relaxed)) {
            (Ok(done), _) => steps.push(done),
            (Err(_), true) if !steps.is_empty() => break,
            (Err(error), _) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(steps)
}

/// Searches for the highest rate within `limit`, to within 5 %, starting at the rate of the
/// schedule.
///
/// If the user stops the search, the result so far is returned. The interrupted run is among the
/// steps, but is not compared with the limit.
///
/// # Errors
/// Those of `run::run`, and a closed-loop schedule.
pub fn capacity(
    traffic: &Traffic,
    limit: Limit,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Capacity> {
    capacity_with(traffic, limit, stop, |step| {
        run::run_at(step, now_ns(), stop, on_tick)
    })
}

/// Like `capacity`, with any function that runs a rate.
fn capacity_with(
    traffic: &Traffic,
    limit: Limit,
    stop: &AtomicBool,
    mut run: impl FnMut(&Traffic) -> Result<LoadResult>,
) -> Result<Capacity> {
    let Schedule::Open { rate_per_s, .. } = traffic.schedule else {
        anyhow::bail!("a closed loop has no rate to search (give a rate to begin with)");
    };
    ensure!(
        0.0 < limit.quantile && limit.quantile <= 1.0,
        "quantile out of range: {}",
        limit.quantile
    );
    let mut steps = Vec::new();
    let (mut broken, mut broken_by_client) = (0, 0);
    let mut ended_early = false;
    let bounds = min_rate_per_s(traffic)..=schedule::max_rate_per_s(traffic.threads);
    let rate_per_s = search(rate_per_s, &bounds, |rate_per_s| {
        let level = Level::RatePerS(rate_per_s);
        let ended = run(&at(traffic, level)?).map(|result| Step { level, result });
        ended_early = stop.load(Ordering::Relaxed);
        match ended {
            Err(_) if ended_early && !steps.is_empty() => return Ok(Kept::Unknown),
            Ok(done) if ended_early => {
                steps.push(done);
                return Ok(Kept::Unknown);
            }
            Err(error) => return Err(error),
            Ok(done) => steps.push(done),
        }
        let result = &steps.last().expect("a step was just added").result;
        if limit.is_kept(result, &at(traffic, level)?) {
            return Ok(Kept::Yes);
        }
        broken += 1;
        broken_by_client += u32::from(client_limits::client_breaks(
            limit.latency,
            limit.quantile,
            result,
        ));
        Ok(Kept::No)
    })?;
    Ok(Capacity {
        rate_per_s,
        ended_early,
        // The server never broke the limit: the client did each time, or the client's highest rate was within it.
        client_was_limit: broken_by_client == broken && (broken > 0 || !ended_early),
        steps,
    })
}

/// Lowest rate of a search: one request per second, and at least one in the window.
fn min_rate_per_s(traffic: &Traffic) -> f64 {
    match traffic.end {
        End::After(window) => f64::max(1.0, 1.0 / window.as_secs_f64()),
        End::Count(_) => 1.0,
    }
}

/// The traffic at one level.
pub fn at(traffic: &Traffic, level: Level) -> Result<Traffic> {
    let mut traffic = traffic.clone();
    match (level, &mut traffic.schedule) {
        (Level::Connections(connections), _) => traffic.connections = connections,
        (Level::RatePerS(wanted), Schedule::Open { rate_per_s, .. }) => *rate_per_s = wanted,
        (Level::RatePerS(wanted), Schedule::Closed { .. }) => {
            anyhow::bail!("a closed loop has no rate: {wanted} (ramp its connections)")
        }
    }
    Ok(traffic)
}

impl Limit {
    /// Whether a run of an open loop is within the limit.
    ///
    /// The queue must also be stable, because a growing queue breaks every latency limit in a
    /// longer run. A run without a successful response is never within the limit.
    pub fn is_kept(&self, result: &LoadResult, traffic: &Traffic) -> bool {
        let failed = result.planned - result.ok;
        let latency_ns = result.latency.quantile_ns(self.quantile);
        result.ok > 0
            && failed as f64 <= self.faults * result.planned as f64
            && u128::from(latency_ns) <= self.latency.as_nanos()
            && !client_limits::falls_behind(result, traffic)
    }
}

/// Whether a rate is within the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
    /// The user ended the search.
    Unknown,
}

/// Finds the highest rate that holds, to within 5 %. Doubles or halves the rate until one holds and
/// another does not, then bisects. After the first, all rates are within `bounds`.
fn search(
    start: f64,
    bounds: &RangeInclusive<f64>,
    mut holds: impl FnMut(f64) -> Result<Kept>,
) -> Result<Option<f64>> {
    let (min, max) = (*bounds.start(), *bounds.end());
    let (mut low, mut high) = (None, None);
    let mut rate = start;
    loop {
        match holds(rate)? {
            Kept::Yes => low = Some(rate),
            Kept::No => high = Some(rate),
            Kept::Unknown => return Ok(low),
        }
        rate = match (low, high) {
            (Some(low), None) if low >= max => return Ok(Some(low)),
            (Some(low), None) => f64::min(low * 2.0, max),
            (None, Some(high)) if high <= min => return Ok(None),
            (None, Some(high)) => f64::max(high / 2.0, min),
            (Some(low), Some(high)) if high / low <= 1.05 => return Ok(Some(low)),
            (Some(low), Some(high)) => f64::sqrt(low * high),
            (None, None) => unreachable!("a rate holds or it does not"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::simulated::{self, Server, traffic};
    use crate::schedule::{Arrivals, Think};

    /// Four workers that take 20 ms for each request: at most 200 requests per second.
    fn server() -> Server {
        Server::new(4, Duration::from_millis(20))
    }

    #[test]
    fn a_capacity_is_found() {
        let limit = Limit {
            quantile: 0.9,
            latency: Duration::from_millis(60),
            faults: 0.0,
        };
        let open = Traffic {
            schedule: Schedule::Open {
                rate_per_s: 80.0,
                arrivals: Arrivals::Constant,
            },
            end: End::After(Duration::from_secs(20)),
            ..traffic()
        };
        let stop = AtomicBool::new(false);
        let run = |step: &Traffic| Ok(simulated::run(step, &server()));
        // Whatever the latency limit, a rate above 200/s makes the queue grow.
        for latency_ms in [60, 10_000] {
            let limit = Limit {
                latency: Duration::from_millis(latency_ms),
                ..limit
            };
            let capacity = capacity_with(&open, limit, &stop, run).unwrap();
            let rate_per_s = capacity.rate_per_s.unwrap();
            assert!(190.0 < rate_per_s && rate_per_s <= 202.0, "{rate_per_s}/s");
            assert!(!capacity.client_was_limit);
            assert!(capacity.steps.len() >= 4);
        }
    }

    #[test]
    fn a_ramp_shows_the_knee() {
        let closed = Traffic {
            schedule: Schedule::Closed { think: Think::NONE },
            end: End::After(Duration::from_secs(10)),
            ..traffic()
        };
        let levels = [1, 2, 4, 8].map(Level::Connections);
        let stop = AtomicBool::new(false);
        let steps = run_with(&levels, &stop, |level| {
            Ok(simulated::run(&at(&closed, level)?, &server()))
        });
        let steps = steps.unwrap();
        let rates = steps.iter().map(|step| step.result.ok_per_s().round());
        assert_eq!(rates.collect::<Vec<_>>(), [50.0, 100.0, 200.0, 200.0]);
    }

    #[test]
    fn a_closed_loop_has_no_rate_to_ramp() {
        let error = at(&traffic(), Level::RatePerS(2.0)).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("a closed loop has no rate: 2"));
    }

    /// Searches for a capacity. Returns the found rate and the number of runs.
    fn find(start: f64, capacity: f64) -> (Option<f64>, u32) {
        let mut runs = 0;
        let rate = search(start, &(1.0..=1e6), |rate| {
            assert!(rate <= 1e6, "{rate}");
            runs += 1;
            let holds = rate <= capacity;
            Ok(if holds { Kept::Yes } else { Kept::No })
        });
        (rate.unwrap(), runs)
    }

    #[test]
    fn a_capacity_is_found_from_below_and_from_above() {
        for start in [10.0, 900.0, 1000.0, 100_000.0] {
            let (rate, runs) = find(start, 1000.0);
            let rate = rate.unwrap();
            assert!(
                rate <= 1000.0 && 1000.0 / rate <= 1.05,
                "{rate} from {start}"
            );
            assert!(runs < 15, "{runs} runs from {start}");
        }
        // Below the lowest rate, and above the highest one that the client can send.
        assert_eq!(find(100.0, 0.5).0, None);
        assert_eq!(find(3000.0, 1e9).0, Some(1e6));
    }

    #[test]
    fn a_level_without_responses_is_not_within_the_limit() {
        let limit = Limit {
            quantile: 0.99,
            latency: Duration::from_micros(1),
            faults: 0.0,
        };
        let short = Traffic {
            schedule: Schedule::Open {
                rate_per_s: 100.0,
                arrivals: Arrivals::Constant,
            },
            warmup: Duration::from_millis(100),
            end: End::After(Duration::from_millis(200)),
            ..traffic()
        };
        let stop = AtomicBool::new(false);
        let run = |step: &Traffic| Ok(simulated::run(step, &server()));
        let capacity = capacity_with(&short, limit, &stop, run).unwrap();
        assert_eq!(capacity.rate_per_s, None);
        // A lower rate has no request in 200 ms.
        let last = capacity.steps.last().map(|step| step.level);
        assert_eq!(last, Some(Level::RatePerS(5.0)));
        assert!(!limit.is_kept(&LoadResult::default(), &short));
    }

    #[test]
    fn a_search_that_is_ended_early_returns_the_best_rate_so_far() {
        let ended_after = |max_runs| {
            let mut runs = 0;
            let rate = search(100.0, &(1.0..=1e6), |rate| {
                runs += 1;
                Ok(match rate <= 300.0 {
                    _ if runs > max_runs => Kept::Unknown,
                    true => Kept::Yes,
                    false => Kept::No,
                })
            });
            rate.unwrap()
        };
        assert_eq!([0, 1, 3].map(ended_after), [None, Some(100.0), Some(200.0)]);
    }

    #[test]
    fn a_limit_counts_faults_and_latency() {
        let limit = Limit {
            quantile: 0.9,
            latency: Duration::from_millis(10),
            faults: 0.01,
        };
        let open = |arrivals| Traffic {
            schedule: Schedule::Open {
                rate_per_s: 1.0,
                arrivals,
            },
            ..traffic()
        };
        let equal = open(Arrivals::Constant);
        let mut result = LoadResult {
            planned: 100,
            ok: 99,
            unsent: 1,
            ..LoadResult::default()
        };
        (0..90).for_each(|_| result.latency.record(1_000_000));
        (0..9).for_each(|_| result.latency.record(50_000_000));
        assert!(limit.is_kept(&result, &equal));
        (result.ok, result.unsent) = (98, 2);
        assert!(!limit.is_kept(&result, &equal));
        (result.ok, result.unsent) = (100, 0);
        assert!(limit.is_kept(&result, &equal));
        // Latencies rise by 0.3 s per second. A backlog that grows by ten is too much for equally
        // spaced requests, but may be chance for random arrivals.
        result.window_ns = 1_000_000_000;
        (0..100).for_each(|at| result.trend.record(at * 10_000_000, at * 3_000_000));
        (result.backlog_open, result.backlog_close) = (0, 10);
        assert!(!limit.is_kept(&result, &equal));
        assert!(limit.is_kept(&result, &open(Arrivals::Poisson)));
        result.backlog_close = 31;
        assert!(!limit.is_kept(&result, &open(Arrivals::Poisson)));
        (result.backlog_open, result.backlog_close) = (0, 0);
        let strict = Limit {
            quantile: 0.99,
            faults: 0.5,
            ..limit
        };
        assert!(!strict.is_kept(&result, &equal));
    }
}
