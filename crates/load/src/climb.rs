//! More than one run: the curve over rising load, and the highest rate that keeps a promise.
//!
//! Every rung is a whole run with a warm-up of its own, so nothing of one rung is in the figures of the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use record::load::LoadResult;

use crate::Tick;
use crate::blame;
use crate::drive;
use crate::schedule::{self, Schedule};
use crate::traffic::Traffic;

/// How hard a rung pushes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Level {
    /// Connections; the schedule stays as it is.
    Connections(u32),
    /// Requests per second of an open loop.
    RatePerS(f64),
}

/// One run of several.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// How hard it pushed.
    pub level: Level,
    /// What the clients saw.
    pub result: LoadResult,
}

/// What a server promises to keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Share of requests that the latency holds for, 0 to 1: 0.99 for the 99th percentile, 1 for the longest.
    pub quantile: f64,
    /// Latency from the planned instant.
    pub latency: Duration,
    /// Share of requests that may fail or stay unsent, 0 to 1.
    pub faults: f64,
}

/// What a search for the capacity found.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// Highest rate that kept the limit, in requests per second; `None` when not even one per second did, or
    /// none of those tried before the early end.
    pub rate_per_s: Option<f64>,
    /// Whether the user ended the search before its time: the rate is then the highest that was found to hold,
    /// not the highest that holds.
    pub ended_early: bool,
    /// Whether the client gave out before the server did, so that the server may have more to give.
    pub client_was_limit: bool,
    /// All runs, in the order in which they were made.
    pub rungs: Vec<Rung>,
}

/// Runs one level after the other. A run that the user ends is the last; what came before is kept.
pub fn climb(
    traffic: &Traffic,
    levels: &[Level],
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Vec<Rung>> {
    climb_with(levels, stop, |level| {
        let rung = at(traffic, level)?;
        drive::run(&rung, stop, on_tick)
    })
}

/// As `climb`, with any way to run a level.
fn climb_with(
    levels: &[Level],
    stop: &AtomicBool,
    mut run: impl FnMut(Level) -> Result<LoadResult>,
) -> Result<Vec<Rung>> {
    let mut rungs = Vec::new();
    for &level in levels {
        let rung = run(level).map(|result| Rung { level, result });
        match (rung, stop.load(Ordering::Relaxed)) {
            (Ok(rung), _) => rungs.push(rung),
            (Err(_), true) if !rungs.is_empty() => break,
            (Err(error), _) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(rungs)
}

/// Searches the highest rate that keeps `limit`, to within 5 %, beginning at the rate of the traffic's schedule.
///
/// A stop by the user ends it; what was found until then is kept, the run that it cut short among it, which is not
/// judged. Errors are those of `drive::run` and a schedule that has no rate.
pub fn capacity(
    traffic: &Traffic,
    limit: Limit,
    stop: &AtomicBool,
    on_tick: &mut dyn FnMut(Tick),
) -> Result<Capacity> {
    capacity_with(traffic, limit, stop, |rung| drive::run(rung, stop, on_tick))
}

/// As `capacity`, with any way to run a rate.
fn capacity_with(
    traffic: &Traffic,
    limit: Limit,
    stop: &AtomicBool,
    mut run: impl FnMut(&Traffic) -> Result<LoadResult>,
) -> Result<Capacity> {
    let Schedule::Open { rate_per_s, .. } = traffic.schedule else {
        anyhow::bail!("a closed loop has no rate to search (give a rate to begin with)");
    };
    let most_per_s = schedule::most_per_s(traffic.threads);
    ensure!(
        0.0 < limit.quantile && limit.quantile <= 1.0,
        "quantile out of range: {}",
        limit.quantile
    );
    let mut rungs = Vec::new();
    let (mut broken, mut broken_by_client) = (0, 0);
    let mut ended_early = false;
    let rate_per_s = search((rate_per_s, most_per_s), |rate_per_s| {
        let level = Level::RatePerS(rate_per_s);
        let rung = run(&at(traffic, level)?).map(|result| Rung { level, result });
        ended_early = stop.load(Ordering::Relaxed);
        match rung {
            Err(_) if ended_early && !rungs.is_empty() => return Ok(Held::Unknown),
            Ok(rung) if ended_early => {
                rungs.push(rung);
                return Ok(Held::Unknown);
            }
            Err(error) => return Err(error),
            Ok(rung) => rungs.push(rung),
        }
        let result = &rungs.last().expect("a rung was just added").result;
        if limit.is_kept(result, traffic) {
            return Ok(Held::Yes);
        }
        broken += 1;
        broken_by_client += u32::from(limit.is_broken_by_client(result));
        Ok(Held::No)
    })?;
    Ok(Capacity {
        rate_per_s,
        ended_early,
        // With the client's own limit reached, the server was never found wanting.
        client_was_limit: broken_by_client == broken && (broken > 0 || !ended_early),
        rungs,
    })
}

/// The traffic of one level.
fn at(traffic: &Traffic, level: Level) -> Result<Traffic> {
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
    /// Whether a run of an open loop kept it.
    ///
    /// A queue that grows breaks every limit on latency in the end, however short the run: it must be stable too.
    pub fn is_kept(&self, result: &LoadResult, traffic: &Traffic) -> bool {
        let failed = result.planned - result.ok;
        let latency_ns = result.latency.quantile_ns(self.quantile);
        failed as f64 <= self.faults * result.planned as f64
            && u128::from(latency_ns) <= self.latency.as_nanos()
            && !blame::falls_behind(result, traffic)
    }

    /// Whether the client's own lateness would break it.
    fn is_broken_by_client(&self, result: &LoadResult) -> bool {
        let late_ns = result.lateness.quantile_ns(self.quantile);
        u128::from(late_ns) > self.latency.as_nanos() / 2
    }
}

/// Whether a rate keeps the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Yes,
    No,
    /// The user ended the search.
    Unknown,
}

/// Highest rate that holds, to within 5 %, or of those tried before the end: doubles or halves until one rate holds and another does not, and
/// then halves the distance. No rate above `most` is tried.
fn search(
    (start, most): (f64, f64),
    mut holds: impl FnMut(f64) -> Result<Held>,
) -> Result<Option<f64>> {
    let (mut low, mut high) = (None, None);
    let mut rate = start;
    loop {
        match holds(rate)? {
            Held::Yes => low = Some(rate),
            Held::No => high = Some(rate),
            Held::Unknown => return Ok(low),
        }
        rate = match (low, high) {
            (Some(low), None) if low >= most => return Ok(Some(low)),
            (Some(low), None) => f64::min(low * 2.0, most),
            (None, Some(high)) if high <= 1.0 => return Ok(None),
            (None, Some(high)) => f64::max(high / 2.0, 1.0),
            (Some(low), Some(high)) if high / low <= 1.05 => return Ok(Some(low)),
            (Some(low), Some(high)) => f64::sqrt(low * high),
            (None, None) => unreachable!("a rate holds or it does not"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::simulated::{self, Server, traffic};
    use crate::schedule::{Arrivals, Think};
    use crate::traffic::End;

    /// Four connections, 20 ms for each request: 200 requests per second and not one more.
    fn server() -> Server {
        Server::of(4, Duration::from_millis(20))
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
        let run = |rung: &Traffic| Ok(simulated::run(rung, &server()));
        // However long a request may take, no more than 200 per second are kept up.
        for latency_ms in [60, 10_000] {
            let limit = Limit {
                latency: Duration::from_millis(latency_ms),
                ..limit
            };
            let found = capacity_with(&open, limit, &stop, run).unwrap();
            let rate_per_s = found.rate_per_s.unwrap();
            assert!(
                190.0 < rate_per_s && rate_per_s <= 202.0,
                "{rate_per_s} requests per second"
            );
            assert!(!found.client_was_limit);
            assert!(found.rungs.len() >= 4);
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
        let rungs = climb_with(&levels, &stop, |level| {
            Ok(simulated::run(&at(&closed, level)?, &server()))
        });
        let rungs = rungs.unwrap();
        let rates = rungs.iter().map(|rung| rung.result.ok_per_s().round());
        assert_eq!(rates.collect::<Vec<_>>(), [50.0, 100.0, 200.0, 200.0]);
    }

    #[test]
    fn a_closed_loop_has_no_rate_to_climb() {
        let why = at(&traffic(), Level::RatePerS(2.0)).map(|_| ());
        assert!(
            why.unwrap_err()
                .to_string()
                .starts_with("a closed loop has no rate: 2")
        );
    }

    fn find(start: f64, truth: f64) -> (Option<f64>, u32) {
        let mut runs = 0;
        let found = search((start, 1e6), |rate| {
            assert!(rate <= 1e6, "{rate}");
            runs += 1;
            Ok(if rate <= truth { Held::Yes } else { Held::No })
        });
        (found.unwrap(), runs)
    }

    #[test]
    fn a_capacity_is_found_from_below_and_from_above() {
        for start in [10.0, 900.0, 1000.0, 100_000.0] {
            let (found, runs) = find(start, 1000.0);
            let found = found.unwrap();
            assert!(
                found <= 1000.0 && 1000.0 / found <= 1.05,
                "{found} from {start}"
            );
            assert!(runs < 15, "{runs} runs from {start}");
        }
    }

    #[test]
    fn a_server_that_keeps_nothing_has_no_capacity() {
        assert_eq!(find(100.0, 0.5).0, None);
    }

    #[test]
    fn a_search_ends_at_what_the_client_can_send() {
        assert_eq!(find(3000.0, 1e9).0, Some(1e6));
    }

    #[test]
    fn a_search_that_is_ended_early_keeps_what_it_found() {
        let ended_after = |most| {
            let mut runs = 0;
            let found = search((100.0, 1e6), |rate| {
                runs += 1;
                Ok(match rate <= 300.0 {
                    _ if runs > most => Held::Unknown,
                    true => Held::Yes,
                    false => Held::No,
                })
            });
            found.unwrap()
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
        // Four connections explain four requests under way, and chance some more.
        (result.backlog_open, result.backlog_close) = (3, 8);
        assert!(!limit.is_kept(&result, &equal));
        assert!(limit.is_kept(&result, &open(Arrivals::Poisson)));
        result.backlog_close = 34;
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
