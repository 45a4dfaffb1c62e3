//! The result of a job, and warnings about it, such as that the client was the limit.

use std::sync::atomic::{AtomicBool, Ordering};

use base::input::units::significant;
use load::client_limits::{self, Behind, Lack, Pace, Warning};
use load::ramp::{self, Capacity, Level, Limit};
use load::traffic::{RateUnit, Traffic};
use record::load::LoadResult;

use crate::load_cli::format::{show_count, show_ns, show_rate};

/// All runs of a job.
pub(crate) struct Outcome {
    pub(crate) runs: Vec<Run>,
    pub(crate) search: Option<Search>,
    /// Whether the user stopped the job early.
    pub(crate) ended_early: bool,
    /// The workers, if other hosts sent the load.
    pub(crate) workers: Vec<Worker>,
}

impl Outcome {
    /// The outcome of runs; `stop` is set if the user stopped them.
    pub(crate) fn new(runs: Vec<Run>, stop: &AtomicBool) -> Self {
        Self {
            runs,
            search: None,
            ended_early: stop.load(Ordering::Relaxed),
            workers: Vec::new(),
        }
    }

    /// Whether requests were planned and none succeeded in any run.
    pub(crate) fn has_no_success(&self) -> bool {
        let mut planned = self.runs.iter().filter(|run| run.result.planned > 0);
        planned.clone().next().is_some()
            && planned.all(|run| client_limits::has_no_success(&run.result))
    }

    /// Whether no part of the load is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.workers.iter().all(|worker| worker.result.is_ok())
    }
}

/// One run.
pub(crate) struct Run {
    /// The level of the run, if it is a step of a ramp or a search.
    pub(crate) level: Option<Level>,
    /// The requested rate, in an open loop.
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) result: LoadResult,
    /// Whether client threads watch the clock before a scheduled send time.
    pub(crate) watches_clock: bool,
    /// The unit of the rate.
    pub(crate) unit: RateUnit,
    /// Whether the server kept up with the rate; `None` in a closed loop.
    pub(crate) pace: Option<Pace>,
    /// Reasons not to trust the figures: a client that was the limit, or a server that does not keep up.
    pub(crate) warnings: Vec<String>,
}

/// A worker and its result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Worker {
    pub(crate) address: String,
    /// Error bound of the worker's start time.
    pub(crate) error_ns: u64,
    /// The worker's result, or why it is lost.
    pub(crate) result: Result<LoadResult, String>,
}

/// The result of a search for the capacity.
pub(crate) struct Search {
    pub(crate) limit: Limit,
    pub(crate) rate_per_s: Option<f64>,
    /// The lowest rate tried.
    pub(crate) lowest_per_s: f64,
    pub(crate) ended_early: bool,
    pub(crate) client_was_limit: bool,
}

impl Run {
    pub(crate) fn new(level: Option<Level>, result: LoadResult, traffic: &Traffic) -> Self {
        let at_level = level.and_then(|level| ramp::at(traffic, level).ok());
        let traffic = at_level.as_ref().unwrap_or(traffic);
        let rate_per_s = match level {
            Some(Level::RatePerS(rate_per_s)) => Some(rate_per_s),
            Some(Level::Connections(_)) | None => traffic.schedule.rate_per_s(),
        };
        let warnings = client_limits::warnings(&result, traffic, rate_per_s);
        let pace = || client_limits::pace(&result, traffic, result.incidents.stalled_backlog);
        Self {
            unit: traffic.mix.rate_unit(),
            pace: rate_per_s.map(|_| pace()),
            warnings: warnings.iter().map(warning_text).collect(),
            level,
            rate_per_s,
            result,
            watches_clock: client_limits::watches_clock(traffic),
        }
    }
}

impl Search {
    pub(crate) fn new(limit: Limit, capacity: &Capacity) -> Self {
        let Capacity {
            rate_per_s,
            ended_early,
            client_was_limit,
            ..
        } = *capacity;
        let rates = capacity.steps.iter().map(|step| match step.level {
            Level::RatePerS(rate_per_s) => rate_per_s,
            Level::Connections(_) => f64::INFINITY,
        });
        Self {
            limit,
            rate_per_s,
            lowest_per_s: rates.fold(f64::INFINITY, f64::min),
            ended_early,
            client_was_limit,
        }
    }
}

/// A line for each lost worker.
pub(crate) fn loss_lines(workers: &[Worker]) -> Vec<String> {
    let lost = workers.iter().filter_map(|worker| {
        let why = worker.result.as_ref().err()?;
        let address = &worker.address;
        Some(format!(
            "worker lost: {address}: {why} (its part is not in these figures, and the others were ended early)"
        ))
    });
    lost.collect()
}

/// A warning as text, with a remedy.
fn warning_text(warning: &Warning) -> String {
    match *warning {
        Warning::NoSuccess { planned, fault } => {
            let how = fault.map_or("not sent in time", judge::report::fault);
            format!(
                "no request succeeded: {} planned, {how} (look at the server, and at what is expected of it)",
                show_count(planned)
            )
        }
        Warning::Stalled {
            stalled_ns,
            longest_ns,
            requests,
            quantile,
        } => {
            let shown = match (quantile * 1e6).round() / 1e4 {
                100.0.. => "the longest latency".into(),
                percent => format!("latencies from p{percent} on"),
            };
            format!(
                "the client itself was held up, for {} in all and {} at most: {shown} may be its own (requests due or \
                 under way then: {}; measure again, and leave the client running)",
                show_ns(stalled_ns),
                show_ns(longest_ns),
                show_count(requests)
            )
        }
        Warning::WaitedForCpu { share } => format!(
            "a client thread was ready to run and had no CPU for {:.0} % of the time (give the client CPUs of its own)",
            share * 100.0
        ),
        Warning::BackedOff { connections, share } => format!(
            "the client waited 100 ms after each of {} connections that could not be made: {} % of its time (the server \
             was asked for less; look at what it refuses)",
            show_count(connections),
            significant(share * 100.0, 2)
        ),
        Warning::ThreadBusy {
            share,
            has_connections_for_more,
        } => {
            let remedy = if has_connections_for_more {
                "give the client more threads with -t, or another machine"
            } else {
                "ask for more connections"
            };
            format!(
                "the client was the limit: a thread was {:.0} % busy (the server may be faster; {remedy})",
                share * 100.0
            )
        }
        Warning::SentLate {
            send_delay_ns,
            latency_ns,
        } => format!(
            "the client sent late: p99 of the send delay {}, of the latency {} (ask for a lower rate, more threads with \
             -t, or use another machine)",
            show_ns(send_delay_ns),
            show_ns(latency_ns)
        ),
        Warning::FewerConnections { held, asked } => format!(
            "fewer connections held than asked for: {held} of {asked} (look at the faults and at the server's limits)"
        ),
        Warning::Stolen { share } => format!(
            "the hypervisor took {} % of the client's machine (measure again, or on a machine of your own)",
            significant(share * 100.0, 2)
        ),
        Warning::OutOf { lack, requests } => {
            let (lack, remedy) = lack_text(lack);
            format!("the client had {lack}: {requests} requests ({remedy})")
        }
        Warning::TooFewConnections {
            rate_per_s,
            begun_per_s,
            asked,
        } => format!(
            "too few connections: {}/s visitors begun of {}/s asked for, with {} connections that were taken while the \
             server had little to do (each visitor keeps one until it leaves: ask for more with -c)",
            show_rate(begun_per_s),
            show_rate(rate_per_s),
            show_count(asked)
        ),
        Warning::ServerBehind {
            unit,
            rate_per_s,
            done_per_s,
            others,
        } => {
            let done = match unit {
                RateUnit::Requests => "successful requests",
                RateUnit::Visitors => "visitors begun",
            };
            format!(
                "the server does not keep up: {}/s {done} of {}/s asked for, {} (latencies are those of this window; a \
                 longer one would show longer ones)",
                show_rate(done_per_s),
                show_rate(rate_per_s),
                backlog_text(&others)
            )
        }
    }
}

/// What the client lacked, and the remedy.
fn lack_text(lack: Lack) -> (&'static str, &'static str) {
    match lack {
        Lack::Port => ("no port left", "name more addresses with --source"),
        Lack::Descriptor => ("no descriptor left", "raise the limit with ulimit -n"),
        Lack::Memory => ("no memory left", "ask for fewer connections"),
        Lack::Time => (
            "no time left to send",
            "ask for a lower rate, or more threads with -t",
        ),
    }
}

/// What happened to the requests with which the server did not keep up.
fn backlog_text(others: &Behind) -> String {
    match others {
        Behind::Waiting { per_s } => format!("the backlog grew by {}/s", show_rate(*per_s)),
        Behind::Late { requests } => format!(
            "{} requests had no response by their deadline",
            show_count(*requests)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use load::schedule::{Arrivals, Schedule, Think};
    use load::traffic::Mix;
    use record::incidents::Incidents;
    use record::load::Fault;

    const RATE: Schedule = Schedule::Open {
        rate_per_s: 1.0,
        arrivals: Arrivals::Constant,
    };
    const LOOP: Schedule = Schedule::Closed { think: Think::NONE };

    /// Checks the warnings about a good run of 64 connections after `spoil` changed it.
    fn check(schedule: Schedule, spoil: impl Fn(&mut LoadResult), want: &Expect) {
        let mut result = sound();
        spoil(&mut result);
        let traffic = Traffic {
            schedule,
            ..traffic()
        };
        let warnings = client_limits::warnings(&result, &traffic, None);
        let text: Vec<_> = warnings.iter().map(warning_text).collect();
        want.assert_eq(&text.join("\n"));
    }

    fn sound() -> LoadResult {
        let mut result = LoadResult {
            window_ns: 1_000_000_000,
            planned: 1,
            ok: 1,
            ok_in_window: 1,
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
    fn there_is_no_warning_about_a_client_that_keeps_up() {
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
    fn a_client_that_was_the_limit_is_reported() {
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
                "the client sent late: p99 of the send delay 250 µs, of the latency 2.00 ms (ask for a lower rate, more threads with -t, or use another machine)"
            ],
        );
        let spoil = |result: &mut LoadResult| {
            (result.planned, result.ok) = (70_000, 70_000);
            result.ok_in_window = 50_010;
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
        assert_eq!(run.pace, Some(Pace::ServerBehind));
        expect!["the server does not keep up: 50,010/s successful requests of 70,000/s asked for, the backlog grew by 19,990/s (latencies are those of this window; a longer one would show longer ones)"]
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

    #[test]
    fn a_client_that_waits_is_reported() {
        check(
            LOOP,
            |result| result.client_wait_ns = vec![110_000_000, 90_000_000],
            &expect![[
                "a client thread was ready to run and had no CPU for 11 % of the time (give the client CPUs of its own)"
            ]],
        );
        check(
            LOOP,
            |result| _ = result.faults.insert(Fault::ConnectFailed, 32),
            &expect![[
                "the client waited 100 ms after each of 32 connections that could not be made: 5.0 % of its time (the server was asked for less; look at what it refuses)"
            ]],
        );
        check(
            RATE,
            |result| _ = result.faults.insert(Fault::ConnectFailed, 32),
            &expect![[""]],
        );
    }

    #[test]
    fn a_run_without_a_success_is_reported_first() {
        let fail = |fault: Option<Fault>, unsent| {
            move |result: &mut LoadResult| {
                (result.planned, result.ok, result.unsent) = (20, 0, unsent);
                result.faults.extend(fault.map(|fault| (fault, 20)));
            }
        };
        check(
            LOOP,
            fail(Some(Fault::Malformed), 0),
            &expect![[
                "no request succeeded: 20 planned, not HTTP (look at the server, and at what is expected of it)"
            ]],
        );
        check(
            RATE,
            fail(None, 20),
            &expect![[
                "no request succeeded: 20 planned, not sent in time (look at the server, and at what is expected of it)"
            ]],
        );
    }

    /// The warning about a stall of one second that delayed this many of 1000 requests of 2 ms.
    fn stall_warning(requests: u64) -> String {
        let mut result = sound();
        (result.planned, result.ok) = (1000, 1000);
        (1..1000 - requests).for_each(|_| result.latency.record(2_000_000));
        (0..requests).for_each(|_| result.latency.record(1_000_000_000));
        result.incidents = Incidents {
            stalls: 1,
            stalled_ns: 1_000_000_000,
            longest_stall_ns: 1_000_000_000,
            stalled_requests: requests,
            ..Incidents::default()
        };
        let warnings = client_limits::warnings(&result, &traffic(), None);
        let text: Vec<_> = warnings.iter().map(warning_text).collect();
        text.join("\n")
    }

    #[test]
    fn a_stall_is_reported_with_the_quantile_that_it_affects() {
        assert_eq!(stall_warning(0), "");
        expect![[
            "the client itself was held up, for 1.00 s in all and 1.00 s at most: latencies from p99.99 on may be its own (requests due or under way then: 1; measure again, and leave the client running)"
        ]]
        .assert_eq(&stall_warning(1));
        expect![[
            "the client itself was held up, for 1.00 s in all and 1.00 s at most: latencies from p75 on may be its own (requests due or under way then: 333; measure again, and leave the client running)"
        ]]
        .assert_eq(&stall_warning(333));
    }
}
