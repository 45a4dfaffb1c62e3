//! What came of an order, and whether it may be believed: a client that was the limit says so
//! first.

use load::blame;
use load::climb::{Capacity, Level, Limit};
use load::schedule::Schedule;
use load::traffic::{End, Mix, Traffic};
use record::load::{Fault, LoadResult};
use record::units::significant;

use super::leader::Follower;
use super::summary::{show_count, show_ns, show_rate};

/// A client thread that is busier cannot be sure to keep up.
const BUSY_LIMIT: f64 = 0.7;
/// Lateness that is never worth a word, in nanoseconds.
const LATE_FLOOR_NS: u64 = 100_000;
/// Share of the latency that lateness may make up before it is said.
const LATE_SHARE: f64 = 0.1;
/// Share of the client's machine that a hypervisor may take unnoticed: more shows in the 99th percentile.
const STOLEN_LIMIT: f64 = 0.01;

/// All runs of an order.
pub(super) struct Outcome {
    pub(super) runs: Vec<Run>,
    pub(super) search: Option<Search>,
    /// The user ended it before its time.
    pub(super) ended_early: bool,
    /// Who sent the load, where others did.
    pub(super) followers: Vec<Follower>,
}

impl Outcome {
    /// Whether no part of the load is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.followers.iter().all(|each| each.result.is_ok())
    }
}

/// One run.
pub(super) struct Run {
    /// What set it apart from the others, where there are others.
    pub(super) level: Option<Level>,
    /// Requests per second asked for, in an open loop.
    pub(super) rate_per_s: Option<f64>,
    pub(super) result: LoadResult,
    /// Whether client threads spend time before an instant on watching the clock.
    pub(super) waits_actively: bool,
    /// Whether the server kept up with the rate; none in a closed loop, which has no rate to keep up with.
    pub(super) keeps_up: Option<bool>,
    /// Why its figures say more of the client than of the server, or are of a server that does not keep up.
    pub(super) warnings: Vec<String>,
}

/// What a search for the capacity found.
pub(super) struct Search {
    pub(super) limit: Limit,
    pub(super) rate_per_s: Option<f64>,
    pub(super) ended_early: bool,
    pub(super) client_was_limit: bool,
}

impl Run {
    pub(super) fn new(level: Option<Level>, result: LoadResult, traffic: &Traffic) -> Self {
        let planned = match traffic.schedule {
            Schedule::Open { rate_per_s, .. } => Some(rate_per_s),
            Schedule::Closed { .. } => None,
        };
        let rate_per_s = match level {
            Some(Level::RatePerS(rate_per_s)) => Some(rate_per_s),
            Some(Level::Connections(_)) | None => planned,
        };
        let keeps_up = rate_per_s.map(|_| !blame::falls_behind(&result, traffic));
        let mut warnings = warnings(&result, traffic);
        warnings.extend(behind_warning(&result, rate_per_s, keeps_up));
        Self {
            level,
            rate_per_s,
            result,
            waits_actively: waits_actively(traffic),
            keeps_up,
            warnings,
        }
    }
}

impl Search {
    pub(super) fn new(limit: Limit, found: &Capacity) -> Self {
        let Capacity {
            rate_per_s,
            ended_early,
            client_was_limit,
            ..
        } = *found;
        Self {
            limit,
            rate_per_s,
            ended_early,
            client_was_limit,
        }
    }
}

/// Sleeps end late, so a client that has an instant to keep watches the clock before it.
fn waits_actively(traffic: &Traffic) -> bool {
    let sessions = matches!(traffic.mix, Mix::Sessions(_));
    match traffic.schedule {
        Schedule::Open { .. } => true,
        Schedule::Closed { think } => sessions || !think.is_none(),
    }
}

/// Share of the window that each client thread was busy.
pub(super) fn busy(result: &LoadResult) -> Vec<f64> {
    let window_ns = result.window_ns.max(1) as f64;
    result
        .client_cpu_ns
        .iter()
        .map(|cpu_ns| *cpu_ns as f64 / window_ns)
        .collect()
}

/// Signs that the client was the limit.
fn warnings(result: &LoadResult, traffic: &Traffic) -> Vec<String> {
    let checks = [busy_warning, late_warning, held_warning, stolen_warning];
    let mut warnings: Vec<String> = checks
        .iter()
        .filter_map(|check| check(result, traffic))
        .collect();
    let own = [
        (
            Fault::ClientNoPort,
            "no port left",
            "name more addresses with --source",
        ),
        (
            Fault::ClientNoDescriptor,
            "no descriptor left",
            "raise the limit with ulimit -n",
        ),
        (
            Fault::ClientNoMemory,
            "no memory left",
            "ask for fewer connections",
        ),
        (
            Fault::ClientLate,
            "too late to send",
            "ask for a lower rate, or more threads with -t",
        ),
    ];
    for (fault, what, remedy) in own {
        if let Some(count) = result.faults.get(&fault) {
            warnings.push(format!(
                "the client had {what}: {count} requests ({remedy})"
            ));
        }
    }
    warnings
}

/// A busy thread. Where threads wait actively, their lateness tells instead.
fn busy_warning(result: &LoadResult, traffic: &Traffic) -> Option<String> {
    if waits_actively(traffic) {
        return None;
    }
    let busiest = busy(result).into_iter().fold(0.0, f64::max);
    let remedy = if (result.client_cpu_ns.len() as u64) < result.connections_asked {
        "the server may be faster; give the client more threads with -t, or another machine"
    } else {
        "the server may be faster; ask for more connections"
    };
    (busiest > BUSY_LIMIT).then(|| {
        format!(
            "the client was the limit: a thread was {:.0} % busy ({remedy})",
            busiest * 100.0
        )
    })
}

/// Lateness that shows in the latency.
fn late_warning(result: &LoadResult, _: &Traffic) -> Option<String> {
    if result.lateness.count() == 0 {
        return None;
    }
    let [late_ns, latency_ns] =
        [&result.lateness, &result.latency].map(|one| one.quantile_ns(0.99));
    let shows = late_ns > LATE_FLOOR_NS && late_ns as f64 > LATE_SHARE * latency_ns as f64;
    shows.then(|| {
        format!(
            "the client was late: p99 {} of a latency of {} (ask for a lower rate, more threads with \
             -t, or use another machine)",
            show_ns(late_ns),
            show_ns(latency_ns)
        )
    })
}

/// CPU time that the hypervisor gave to others.
fn stolen_warning(result: &LoadResult, _: &Traffic) -> Option<String> {
    let stolen = result.stolen();
    (stolen > STOLEN_LIMIT).then(|| {
        format!(
            "the hypervisor took {} % of the client's machine (measure again, or on a machine of your own)",
            significant(stolen * 100.0, 2)
        )
    })
}

/// A server that does less than is asked of it.
fn behind_warning(
    result: &LoadResult,
    rate_per_s: Option<f64>,
    keeps_up: Option<bool>,
) -> Option<String> {
    let rate_per_s = rate_per_s.filter(|_| keeps_up == Some(false))?;
    let backlog = if result.backlog_close > result.backlog_open {
        let growth = show_rate(result.backlog_growth_per_s());
        format!("requests that wait became more by {growth}/s")
    } else {
        let late = show_count(blame::late_count(result));
        format!("{late} requests were not answered by their deadline")
    };
    Some(format!(
        "the server does not keep up: {}/s right answers of {}/s asked for, {backlog} (latencies are those of this \
         window; a longer one would show longer ones)",
        show_rate(result.ok_per_s()),
        show_rate(rate_per_s)
    ))
}

/// Connections that could not be held. With a rate, or one connection per request, they open on
/// demand.
fn held_warning(result: &LoadResult, traffic: &Traffic) -> Option<String> {
    let steady = matches!(traffic.schedule, Schedule::Closed { .. }) && traffic.keep_alive;
    let few = match traffic.end {
        End::After(_) => false,
        End::Count(count) => count < result.connections_asked,
    };
    let LoadResult {
        connections_asked: asked,
        connections_held: held,
        ..
    } = *result;
    (steady && !few && held < asked).then(|| {
        let remedy = "look at the faults and at the server's limits";
        format!("fewer connections held than asked for: {held} of {asked} ({remedy})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use load::schedule::{Arrivals, Think};

    const RATE: Schedule = Schedule::Open {
        rate_per_s: 1.0,
        arrivals: Arrivals::Constant,
    };
    const LOOP: Schedule = Schedule::Closed { think: Think::NONE };

    /// A run of 64 connections that is fine, but for what `spoil` does to it.
    fn check(schedule: Schedule, spoil: impl Fn(&mut LoadResult), want: &Expect) {
        let mut result = sound();
        spoil(&mut result);
        let traffic = Traffic {
            schedule,
            ..traffic()
        };
        want.assert_eq(&warnings(&result, &traffic).join("\n"));
    }

    fn sound() -> LoadResult {
        let mut result = LoadResult {
            window_ns: 1_000_000_000,
            connections_asked: 64,
            connections_held: 64,
            client_cpu_ns: vec![100_000_000, 700_000_000],
            ..LoadResult::default()
        };
        result.latency.record(2_000_000);
        result
    }

    fn traffic() -> Traffic {
        Traffic {
            connections: 64,
            threads: 2,
            ..Traffic::plain(([127, 0, 0, 1], 80).into(), Mix::Round(Vec::new()))
        }
    }

    #[test]
    fn a_client_that_keeps_up_is_not_warned_of() {
        check(LOOP, |_| {}, &expect![[""]]);
        check(
            RATE,
            |result| result.lateness.record(90_000),
            &expect![[""]],
        );
        check(
            RATE,
            |result| result.client_cpu_ns = vec![999_000_000],
            &expect![[""]],
        );
        check(RATE, |result| result.connections_held = 3, &expect![[""]]);
    }

    #[test]
    fn a_client_that_was_the_limit_says_so() {
        check(
            LOOP,
            |result| result.client_cpu_ns[1] = 710_000_000,
            &expect![
                "the client was the limit: a thread was 71 % busy (the server may be faster; give the client more threads with -t, or another machine)"
            ],
        );
        check(
            LOOP,
            |result| result.connections_held = 60,
            &expect![
                "fewer connections held than asked for: 60 of 64 (look at the faults and at the server's limits)"
            ],
        );
        check(
            RATE,
            |result| result.lateness.record(250_000),
            &expect![
                "the client was late: p99 250 us of a latency of 2.00 ms (ask for a lower rate, more threads with -t, or use another machine)"
            ],
        );
        let spoil = |result: &mut LoadResult| {
            (result.planned, result.ok) = (70_000, 70_000);
            result.ok_in_window = Some(50_010);
            (result.backlog_open, result.backlog_close) = (20_010, 40_000);
        };
        let traffic = Traffic {
            schedule: Schedule::Open {
                rate_per_s: 70_000.0,
                arrivals: Arrivals::Constant,
            },
            ..traffic()
        };
        let mut result = sound();
        spoil(&mut result);
        let run = Run::new(None, result, &traffic);
        assert_eq!(run.keeps_up, Some(false));
        expect!["the server does not keep up: 50,010/s right answers of 70,000/s asked for, requests that wait became more by 19,990/s (latencies are those of this window; a longer one would show longer ones)"]
            .assert_eq(&run.warnings.join("\n"));
        let spoil = |result: &mut LoadResult| {
            result.faults.insert(Fault::ClientNoPort, 3);
        };
        check(
            LOOP,
            spoil,
            &expect!["the client had no port left: 3 requests (name more addresses with --source)"],
        );
    }
}
