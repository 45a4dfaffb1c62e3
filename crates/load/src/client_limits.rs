//! Whether a run's figures are the server's: signs that the client was the limit, or that the
//! server did not keep up with the rate asked for, so that its figures depend on how long one
//! looks. All thresholds stand here, each with its reason. A sign is data; whoever shows it finds
//! the words.

use std::time::Duration;

use record::load::{Fault, LoadResult};
use record::load_path::{LoadPace, SentLate};

use crate::clients::{BACK_OFF_NS, must_back_off};
use crate::schedule::{Arrivals, Schedule};
use crate::traffic::{End, Mix, RateUnit, Traffic};

/// The quantiles of latency that are shown.
pub const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// Share of the window that a client thread may be busy. At 70 % a request that comes at random
/// waits for the thread for 1.2 times its own work on average (M/D/1: rho / (2 (1 - rho))), and
/// steeply longer above.
const BUSY_LIMIT: f64 = 0.7;

/// 99th percentile of the send delay that is never worth a word, in nanoseconds: on most machines
/// sleeps end as late.
const SEND_DELAY_FLOOR_NS: u64 = 100_000;

/// Share of the latency that the send delay may make up, each at its 99th percentile: a tenth
/// changes the second digit of the figure.
const SEND_DELAY_SHARE: f64 = 0.1;

/// Share of a capacity's limit on latency that the client's own send delay may use up: with more
/// than half, the limit was broken by the client rather than by the server.
const SEND_DELAY_OF_LIMIT: f64 = 0.5;

/// Share of the client's machine that a hypervisor may take unnoticed: more shows in the 99th
/// percentile.
const STOLEN_LIMIT: f64 = 0.01;

/// Share of the window that a client thread may be ready to run and have no CPU: as for the send
/// delay, a tenth changes the second digit. Shorter times than this, in nanoseconds, are the
/// scheduler's grain.
const WAIT_LIMIT: f64 = 0.1;
const WAIT_FLOOR_NS: u64 = 20_000_000;

/// Share of their time that clients may wait after connections that could not be made.
const BACK_OFF_LIMIT: f64 = 0.01;

/// Share of the requests of an open loop that may wait longer and longer, or be late: as many as a
/// 99th percentile leaves out.
const BEHIND_LIMIT: f64 = 0.01;

/// How much of a backlog's growth must show in latencies that rise. That of a queue that grows all
/// the time shows in full: latencies rise by as much per second as the growth is of what was due.
const SHOWN_SHARE: f64 = 0.5;

/// Share of what was due by which the backlog may grow however latencies go: a server that happened
/// to stand still when the window closed, but not for long.
const STALL_LIMIT: f64 = 0.1;

/// Standard deviations that chance is believed to make up: more in one of 700 runs.
const CHANCE_SIGMA: f64 = 3.0;

/// Whether the rate of an open loop was kept up with, and what was too little if it was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It was; or it is a closed loop, which waits for the server.
    Kept,
    /// The server does less than was asked for.
    ServerBehind,
    /// Visitors waited for one of the client's connections, which others kept while they thought.
    TooFewConnections,
}

/// Why a run's figures say more of the client than of the server, or are of a server that does not
/// keep up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warning {
    /// All requests failed.
    NoSuccess {
        /// Requests that were planned.
        planned: u64,
        /// How most of them failed; none where they were not even sent.
        fault: Option<Fault>,
    },
    /// A client thread was held up by so much that it shows in the latency.
    Stalled {
        /// For how long together.
        stalled_ns: u64,
        /// The longest time.
        longest_ns: u64,
        /// Requests that were due or under way then.
        requests: u64,
        /// The lowest of the quantiles in which that shows, 0 to 1; 1 for the longest latency.
        quantile: f64,
    },
    /// A client thread was ready to run and had no CPU.
    WaitedForCpu {
        /// Share of the window, of the thread that waited most.
        share: f64,
    },
    /// Clients waited after connections that could not be made, so that they asked for less.
    BackedOff {
        /// Connections that could not be made.
        connections: u64,
        /// Share of the clients' time.
        share: f64,
    },
    /// A client thread was busy for much of the window, so that the server may be faster.
    ThreadBusy {
        /// Share of the window that the busiest thread was busy.
        share: f64,
        /// Whether more threads would have connections to serve.
        has_connections_for_more: bool,
    },
    /// Requests were sent late by so much that it shows in the latency; both are 99th percentiles.
    SentLate {
        /// From when a request was due to when it was sent.
        send_delay_ns: u64,
        /// From when a request was due to the end of its response.
        latency_ns: u64,
    },
    /// Not all connections could be held.
    FewerConnections {
        /// Most at once.
        held: u64,
        /// As many as asked for.
        asked: u64,
    },
    /// The hypervisor gave CPU time of the client's machine to others.
    Stolen {
        /// Share of the machine's CPU time.
        share: f64,
    },
    /// Requests failed for something that the client lacked.
    OutOf {
        /// What it lacked.
        lack: Lack,
        /// Requests that failed for it.
        requests: u64,
    },
    /// The server does less than it is asked for.
    ServerBehind {
        /// What the two rates are of.
        unit: RateUnit,
        /// As many per second were asked for.
        rate_per_s: f64,
        /// Successful requests, or visitors that got a connection, per second.
        done_per_s: f64,
        /// What became of the others.
        others: Behind,
    },
    /// Visitors waited for connections while the server had little to do.
    TooFewConnections {
        /// Visitors per second asked for.
        rate_per_s: f64,
        /// Visitors per second that got a connection.
        begun_per_s: f64,
        /// As many connections as asked for.
        asked: u64,
    },
}

/// What a client can lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// A port to connect from.
    Port,
    /// A descriptor for a socket.
    Descriptor,
    /// Memory in the kernel.
    Memory,
    /// Time: the deadline had passed before the request could be sent.
    Time,
}

/// The client's own faults.
const LACKS: [(Fault, Lack); 4] = [
    (Fault::ClientNoPort, Lack::Port),
    (Fault::ClientNoDescriptor, Lack::Descriptor),
    (Fault::ClientNoMemory, Lack::Memory),
    (Fault::ClientLate, Lack::Time),
];

/// What becomes of requests that a server does not keep up with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Behind {
    /// They wait, by so many more each second.
    Waiting {
        /// Growth of the backlog.
        per_s: f64,
    },
    /// The backlog is as long as the deadline lets it be: so many got no response in time.
    Late {
        /// Requests never sent, or without a response by their deadline.
        requests: u64,
    },
}

/// All signs of one run. `rate_per_s` is what was asked for in an open loop.
pub fn warnings(result: &LoadResult, traffic: &Traffic, rate_per_s: Option<f64>) -> Vec<Warning> {
    let lacks = LACKS.iter().filter_map(|(fault, lack)| {
        let (lack, requests) = (*lack, *result.faults.get(fault)?);
        Some(Warning::OutOf { lack, requests })
    });
    let own_backlog = result.incidents.stalled_backlog;
    let behind =
        rate_per_s.and_then(|rate_per_s| rate_not_kept(result, traffic, rate_per_s, own_backlog));
    let mut warnings = Vec::new();
    warnings.extend(no_success(result));
    warnings.extend(thread_busy(result, traffic));
    warnings.extend(stalled(result));
    warnings.extend(waited_for_cpu(result));
    warnings.extend(sent_late(result));
    warnings.extend(fewer_connections(result, traffic));
    warnings.extend(backed_off(result, traffic));
    warnings.extend(stolen(result));
    warnings.extend(lacks);
    warnings.extend(behind);
    warnings
}

/// Whether requests were planned and none was answered as expected.
pub fn has_no_success(result: &LoadResult) -> bool {
    result.planned > 0 && result.ok == 0
}

fn no_success(result: &LoadResult) -> Option<Warning> {
    let most = result.faults.iter().max_by_key(|(_, count)| **count);
    has_no_success(result).then_some(Warning::NoSuccess {
        planned: result.planned,
        fault: most.map(|(fault, _)| *fault),
    })
}

/// A stall that shows in a latency.
fn stalled(result: &LoadResult) -> Option<Warning> {
    let incidents = result.incidents;
    let quantile = result.stalled_quantile(QUANTILES.into_iter().chain([1.0]))?;
    Some(Warning::Stalled {
        stalled_ns: incidents.stalled_ns,
        longest_ns: incidents.longest_stall_ns,
        requests: incidents.stalled_requests,
        quantile,
    })
}

fn waited_for_cpu(result: &LoadResult) -> Option<Warning> {
    let share = result.client_waited();
    let wait_ns = result.client_wait_ns.iter().max().copied().unwrap_or(0);
    (share > WAIT_LIMIT && wait_ns > WAIT_FLOOR_NS).then_some(Warning::WaitedForCpu { share })
}

/// Waits after failed connections, in a closed loop: in an open one the next request goes out on
/// whichever connection is free.
fn backed_off(result: &LoadResult, traffic: &Traffic) -> Option<Warning> {
    let failed = result.faults.iter();
    let failed = failed.filter(|(fault, _)| must_back_off(**fault));
    let connections: u64 = failed.map(|(_, count)| count).sum();
    let clients_ns = result.window_ns as f64 * f64::from(traffic.max_in_flight());
    let share = connections as f64 * BACK_OFF_NS as f64 / clients_ns.max(1.0);
    let is_closed = matches!(traffic.schedule, Schedule::Closed { .. });
    (is_closed && result.ok > 0 && share > BACK_OFF_LIMIT)
        .then_some(Warning::BackedOff { connections, share })
}

/// How requests were sent, and whether the server kept up where they came at a rate.
pub fn load_pace(result: &LoadResult, traffic: &Traffic) -> LoadPace {
    match (traffic.schedule, pace(result, traffic, 0)) {
        (Schedule::Closed { think }, _) if think.is_none() => LoadPace::Closed,
        (Schedule::Closed { .. }, _) => LoadPace::Thinking,
        (Schedule::Open { .. }, Pace::Kept) => LoadPace::Kept,
        (Schedule::Open { .. }, Pace::ServerBehind) => LoadPace::Behind,
        (Schedule::Open { .. }, Pace::TooFewConnections) => LoadPace::TooFewConnections,
    }
}

/// A send delay that shows in the latency.
pub fn late(result: &LoadResult) -> Option<SentLate> {
    if result.lateness.count() == 0 {
        return None;
    }
    let late = SentLate {
        send_delay_ns: result.lateness.quantile_ns(0.99),
        latency_ns: result.latency.quantile_ns(0.99),
    };
    let is_late = late.send_delay_ns > SEND_DELAY_FLOOR_NS
        && late.send_delay_ns as f64 > SEND_DELAY_SHARE * late.latency_ns as f64;
    is_late.then_some(late)
}

/// A busy thread. Where threads watch the clock they are always busy, and their send delay tells
/// instead.
fn thread_busy(result: &LoadResult, traffic: &Traffic) -> Option<Warning> {
    let share = busy_shares(result).into_iter().fold(0.0, f64::max);
    let is_busy = !watches_clock(traffic) && share > BUSY_LIMIT;
    is_busy.then_some(Warning::ThreadBusy {
        share,
        has_connections_for_more: (result.client_cpu_ns.len() as u64) < result.connections_asked,
    })
}

/// A send delay that shows in the latency.
fn sent_late(result: &LoadResult) -> Option<Warning> {
    let SentLate {
        send_delay_ns,
        latency_ns,
    } = late(result)?;
    Some(Warning::SentLate {
        send_delay_ns,
        latency_ns,
    })
}

/// Connections that could not be held. With a rate, or one connection per request, they open on
/// demand.
fn fewer_connections(result: &LoadResult, traffic: &Traffic) -> Option<Warning> {
    let (held, asked) = (result.connections_held, result.connections_asked);
    let all_are_used = match traffic.end {
        End::After(_) => true,
        End::Count(count) => asked <= count,
    };
    let is_steady = matches!(traffic.schedule, Schedule::Closed { .. }) && traffic.keep_alive;
    (is_steady && all_are_used && held < asked).then_some(Warning::FewerConnections { held, asked })
}

fn stolen(result: &LoadResult) -> Option<Warning> {
    let share = result.stolen();
    (share > STOLEN_LIMIT).then_some(Warning::Stolen { share })
}

fn rate_not_kept(
    result: &LoadResult,
    traffic: &Traffic,
    rate_per_s: f64,
    own_backlog: u64,
) -> Option<Warning> {
    let others = if result.backlog_close > result.backlog_open {
        let per_s = result.backlog_growth_per_s();
        Behind::Waiting { per_s }
    } else {
        let requests = late_count(result);
        Behind::Late { requests }
    };
    let unit = traffic.mix.rate_unit();
    match pace(result, traffic, own_backlog) {
        Pace::Kept => None,
        Pace::ServerBehind => Some(Warning::ServerBehind {
            unit,
            rate_per_s,
            done_per_s: match unit {
                RateUnit::Requests => result.ok_per_s(),
                RateUnit::Visitors => result.sessions_begun_per_s(),
            },
            others,
        }),
        Pace::TooFewConnections => Some(Warning::TooFewConnections {
            rate_per_s,
            begun_per_s: result.sessions_begun_per_s(),
            asked: result.connections_asked,
        }),
    }
}

/// Whether an open loop was kept up with. Of the backlog at the window's end so many requests were
/// the client's own: they were due while it was held up.
pub fn pace(result: &LoadResult, traffic: &Traffic, own_backlog: u64) -> Pace {
    let Schedule::Open {
        rate_per_s,
        arrivals,
    } = traffic.schedule
    else {
        return Pace::Kept;
    };
    let visitors_wait = match (traffic.mix.rate_unit(), traffic.end) {
        (RateUnit::Visitors, End::After(_)) => visitors_wait(result, rate_per_s, arrivals),
        (RateUnit::Visitors, End::Count(_)) | (RateUnit::Requests, _) => false,
    };
    if visitors_wait && connections_were_idle(result, traffic) {
        Pace::TooFewConnections
    } else if visitors_wait
        || queue_grows(result, traffic, arrivals, own_backlog)
        || queue_is_full(result, traffic)
    {
        Pace::ServerBehind
    } else {
        Pace::Kept
    }
}

/// Whether the rate was not kept up with, whoever is to blame.
pub fn falls_behind(result: &LoadResult, traffic: &Traffic) -> bool {
    pace(result, traffic, 0) != Pace::Kept
}

/// Whether the backlog grew by more than a hundredth of what was due and by more than chance
/// explains, and either latencies rose with it or it is much more than a load that has just begun
/// explains.
///
/// By Little's law a server that takes long has as many requests under way as come in that time.
/// While these come together the backlog grows too, but a request that is due later waits no
/// longer than one that was due before.
fn queue_grows(
    result: &LoadResult,
    traffic: &Traffic,
    arrivals: Arrivals,
    own_backlog: u64,
) -> bool {
    let planned = result.planned as f64;
    let servers = result.backlog_close.saturating_sub(own_backlog);
    let growth = servers as f64 - result.backlog_open as f64;
    if growth <= f64::max(BEHIND_LIMIT * planned, by_chance(result, planned, arrivals)) {
        return false;
    }
    let rises = result.trend.slope().is_some_and(|(slope, error)| {
        slope > f64::max(SHOWN_SHARE * growth / planned, CHANCE_SIGMA * error)
    });
    rises || growth - filling(result, traffic) > STALL_LIMIT * planned
}

/// Requests by which the backlog of a server with these latencies grows in the window because the
/// load began shortly before it: at any time those are under way that are younger than their
/// latency.
fn filling(result: &LoadResult, traffic: &Traffic) -> f64 {
    let open_ns = traffic.warmup.as_nanos() as f64;
    let close_ns = open_ns + result.window_ns as f64;
    let grown_ns = |(latency_ns, count): (u64, u64)| {
        let latency_ns = latency_ns as f64;
        count as f64 * (latency_ns.min(close_ns) - latency_ns.min(open_ns))
    };
    let sum_ns: f64 = result.latency.recorded().into_iter().map(grown_ns).sum();
    sum_ns / result.window_ns as f64
}

/// Whether the queue is as long as the deadline lets it be: then it grows no more, because what
/// waits too long is given up. A server that leaves single requests without a response has no such
/// queue.
fn queue_is_full(result: &LoadResult, traffic: &Traffic) -> bool {
    let planned_per_s = result.planned as f64 / seconds(result);
    let longest = planned_per_s * traffic.deadline.as_secs_f64();
    let is_late = late_count(result) as f64 > BEHIND_LIMIT * result.planned as f64;
    is_late && result.backlog_close as f64 > longest / 2.0
}

/// Whether fewer visitors got a connection than were due, by more than a hundredth and than chance
/// explains.
fn visitors_wait(result: &LoadResult, rate_per_s: f64, arrivals: Arrivals) -> bool {
    let due = rate_per_s * seconds(result);
    let missing = due - result.sessions_begun as f64;
    // The first and the last of a window may lie on either side of its ends.
    let edge = 2.0;
    let chance = by_chance(result, due, arrivals);
    missing > f64::max(BEHIND_LIMIT * due, chance).max(edge)
}

/// Whether requests took less than half of what connections can hold (Little's law: their rate
/// times the time that one takes), and none went without a response, so that it was not the server
/// that the connections waited for.
fn connections_were_idle(result: &LoadResult, traffic: &Traffic) -> bool {
    let busy = result.ok_per_s() * result.service.mean_ns() / 1e9;
    let timed_out = late_count(result) - result.unsent;
    busy < f64::from(traffic.max_in_flight()) / 2.0
        && timed_out as f64 <= BEHIND_LIMIT * result.planned as f64
}

/// By how much a backlog may grow by chance: as much as random arrivals vary; and where they are
/// equally spaced, as much as the number under way at two instants does.
fn by_chance(result: &LoadResult, due: f64, arrivals: Arrivals) -> f64 {
    let variance = match arrivals {
        Arrivals::Poisson => due,
        Arrivals::Constant => (result.backlog_open + result.backlog_close) as f64,
    };
    CHANCE_SIGMA * variance.sqrt()
}

fn seconds(result: &LoadResult) -> f64 {
    result.window_ns as f64 / 1e9
}

/// Requests that were never sent, or had no response by their deadline.
pub fn late_count(result: &LoadResult) -> u64 {
    let time_outs = [
        Fault::ConnectTimeout,
        Fault::FirstByteTimeout,
        Fault::WholeTimeout,
    ];
    let counts = time_outs
        .iter()
        .filter_map(|fault| result.faults.get(fault));
    result.unsent + counts.sum::<u64>()
}

/// Whether the client's own send delay broke a limit on latency at a quantile.
pub(crate) fn client_breaks(limit: Duration, quantile: f64, result: &LoadResult) -> bool {
    let send_delay_ns = result.lateness.quantile_ns(quantile);
    send_delay_ns as f64 > SEND_DELAY_OF_LIMIT * limit.as_nanos() as f64
}

/// Whether client threads watch the clock before a request is due: sleeps end late.
pub fn watches_clock(traffic: &Traffic) -> bool {
    match traffic.schedule {
        Schedule::Open { .. } => true,
        Schedule::Closed { think } => !think.is_none() || matches!(traffic.mix, Mix::Sessions(_)),
    }
}

/// Share of the window that each client thread was busy.
pub fn busy_shares(result: &LoadResult) -> Vec<f64> {
    let window_ns = result.window_ns.max(1) as f64;
    let cpu_ns = result.client_cpu_ns.iter();
    cpu_ns.map(|cpu_ns| *cpu_ns as f64 / window_ns).collect()
}
