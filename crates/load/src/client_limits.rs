//! Warnings about a run: the client was the bottleneck, or the server did not keep up with the
//! rate, so that figures depend on the length of the run. Each threshold is explained. Warnings are
//! data; callers put them into words.

use std::time::Duration;

use record::load::{Fault, LoadResult};
use record::load_path::{LoadPace, SentLate};

use crate::clients::{BACK_OFF_NS, must_back_off};
use crate::schedule::{Arrivals, Schedule};
use crate::traffic::{End, Mix, RateUnit, Traffic};

/// The quantiles of latency that reports show.
pub const QUANTILES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// Highest share of the window that a client thread may be busy. At 70 % a random request waits for
/// the thread for 1.2 times its service time (M/D/1: rho / (2 (1 - rho))), and much longer above.
const BUSY_LIMIT: f64 = 0.7;

/// Highest 99th percentile of the send delay that is never reported, in nanoseconds: on most
/// machines sleeps end this late.
const SEND_DELAY_FLOOR_NS: u64 = 100_000;

/// Highest ratio of send delay to latency, both at the 99th percentile: a tenth changes the second
/// digit of the latency.
const SEND_DELAY_SHARE: f64 = 0.1;

/// Highest share of a latency limit that the send delay may use: above one half, the client rather
/// than the server broke the limit.
const SEND_DELAY_OF_LIMIT: f64 = 0.5;

/// Highest share of the host's CPU time that the hypervisor may take: more shows in the 99th
/// percentile.
const STOLEN_LIMIT: f64 = 0.01;

/// Highest share of the window that a client thread may wait on a run queue: a tenth changes the
/// second digit.
const WAIT_LIMIT: f64 = 0.1;

/// Longest run-queue wait that is never reported, in nanoseconds: the scheduler's granularity.
const WAIT_FLOOR_NS: u64 = 20_000_000;

/// Highest share of their time that clients may wait after failed connections.
const BACK_OFF_LIMIT: f64 = 0.01;

/// Highest share of the requests of an open loop that may be late: those above the 99th percentile.
const BEHIND_LIMIT: f64 = 0.01;

/// Least share of a backlog's growth that must show as rising latency. If a queue grows all the
/// time, the whole growth shows: latency rises per second by the ratio of growth to planned
/// requests.
const SHOWN_SHARE: f64 = 0.5;

/// Highest growth of the backlog, as a share of planned requests, that a short stall of the server
/// at the end of the window may explain.
const STALL_LIMIT: f64 = 0.1;

/// Standard deviations that chance may explain; exceeded in one of 700 runs.
const CHANCE_SIGMA: f64 = 3.0;

/// Whether the server kept up with the rate of an open loop, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The server kept up, or the loop is closed.
    Kept,
    /// The server is slower than the rate.
    ServerBehind,
    /// Visitors waited for connections, which other visitors kept during their think times.
    TooFewConnections,
}

/// Why a run's figures describe the client rather than the server, or a server that falls behind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warning {
    /// All requests failed.
    NoSuccess {
        /// Number of planned requests.
        planned: u64,
        /// The most frequent fault; `None` if no request was sent.
        fault: Option<Fault>,
    },
    /// Stalls of client threads show in the latency.
    Stalled {
        /// Sum of the stalls.
        stalled_ns: u64,
        /// The longest stall.
        longest_ns: u64,
        /// Requests that were due or under way during a stall.
        requests: u64,
        /// The lowest quantile in which stalls show, 0 to 1; 1 is the maximum.
        quantile: f64,
    },
    /// A client thread waited for a CPU.
    WaitedForCpu {
        /// The longest wait of a thread, as a share of the window.
        share: f64,
    },
    /// Clients waited after failed connections, so they sent fewer requests.
    BackedOff {
        /// Number of failed connections.
        connections: u64,
        /// Share of the clients' time.
        share: f64,
    },
    /// A client thread was busy for much of the window, so the server may be faster.
    ThreadBusy {
        /// Share of the window that the busiest thread was busy.
        share: f64,
        /// Whether there are connections for more threads.
        has_connections_for_more: bool,
    },
    /// The send delay shows in the latency; both are 99th percentiles.
    SentLate {
        /// Time from the scheduled to the actual send.
        send_delay_ns: u64,
        /// Time from the scheduled send to the end of the response.
        latency_ns: u64,
    },
    /// Not all connections could be held.
    FewerConnections {
        /// Most connections at once.
        held: u64,
        /// Configured number of connections.
        asked: u64,
    },
    /// The hypervisor gave CPU time of the client's machine to others.
    Stolen {
        /// Share of the machine's CPU time.
        share: f64,
    },
    /// Requests failed because the client lacked a resource.
    OutOf {
        /// The resource.
        lack: Lack,
        /// Number of these requests.
        requests: u64,
    },
    /// The server is slower than the rate.
    ServerBehind {
        /// Unit of the two rates.
        unit: RateUnit,
        /// Scheduled rate.
        rate_per_s: f64,
        /// Successful requests, or visitors that got a connection, per second.
        done_per_s: f64,
        /// What happened to the other requests.
        others: Behind,
    },
    /// Visitors waited for connections while the server was mostly idle.
    TooFewConnections {
        /// Scheduled visitors per second.
        rate_per_s: f64,
        /// Visitors per second that got a connection.
        begun_per_s: f64,
        /// Configured number of connections.
        asked: u64,
    },
}

/// A resource that a client can lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// A port to connect from.
    Port,
    /// A descriptor for a socket.
    Descriptor,
    /// Kernel memory.
    Memory,
    /// Time: the deadline had passed before the request could be sent.
    Time,
}

/// Faults of the client.
const LACKS: [(Fault, Lack); 4] = [
    (Fault::ClientNoPort, Lack::Port),
    (Fault::ClientNoDescriptor, Lack::Descriptor),
    (Fault::ClientNoMemory, Lack::Memory),
    (Fault::ClientLate, Lack::Time),
];

/// What happens to requests beyond the rate that the server can handle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Behind {
    /// The backlog grows.
    Waiting {
        /// Requests per second.
        per_s: f64,
    },
    /// The backlog has reached its limit, because requests beyond it exceed their deadlines.
    Late {
        /// Requests that were never sent or got no response by their deadline.
        requests: u64,
    },
}

/// All warnings about a run. `rate_per_s` is the scheduled rate of an open loop.
pub fn warnings(result: &LoadResult, traffic: &Traffic, rate_per_s: Option<f64>) -> Vec<Warning> {
    let lacks = LACKS.iter().filter_map(|(fault, lack)| {
        let (lack, requests) = (*lack, *result.faults.get(fault)?);
        Some(Warning::OutOf { lack, requests })
    });
    let behind = rate_per_s.and_then(|rate_per_s| rate_not_kept(result, traffic, rate_per_s));
    let sent_late = late(result).map(|late| Warning::SentLate {
        send_delay_ns: late.send_delay_ns,
        latency_ns: late.latency_ns,
    });
    let mut warnings = Vec::new();
    warnings.extend(no_success(result));
    warnings.extend(thread_busy(result, traffic));
    warnings.extend(stalled(result));
    warnings.extend(waited_for_cpu(result));
    warnings.extend(sent_late);
    warnings.extend(fewer_connections(result, traffic));
    warnings.extend(backed_off(result, traffic));
    warnings.extend(stolen(result));
    warnings.extend(lacks);
    warnings.extend(behind);
    warnings
}

/// Whether requests were planned and none succeeded.
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

/// Applies to closed loops only: in an open loop the next request uses another free connection.
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

/// The kind of the schedule, and whether the server kept up with the rate of an open loop.
pub fn load_pace(result: &LoadResult, traffic: &Traffic) -> LoadPace {
    match (traffic.schedule, pace(result, traffic, 0)) {
        (Schedule::Closed { think }, _) if think.is_none() => LoadPace::Closed,
        (Schedule::Closed { .. }, _) => LoadPace::Thinking,
        (Schedule::Open { .. }, Pace::Kept) => LoadPace::Kept,
        (Schedule::Open { .. }, Pace::ServerBehind) => LoadPace::Behind,
        (Schedule::Open { .. }, Pace::TooFewConnections) => LoadPace::TooFewConnections,
    }
}

/// The send delay, if it shows in the latency.
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

/// Does not apply if threads busy-wait: then the send delay shows an overload instead.
fn thread_busy(result: &LoadResult, traffic: &Traffic) -> Option<Warning> {
    let share = busy_shares(result).into_iter().fold(0.0, f64::max);
    let is_busy = !watches_clock(traffic) && share > BUSY_LIMIT;
    is_busy.then_some(Warning::ThreadBusy {
        share,
        has_connections_for_more: (result.client_cpu_ns.len() as u64) < result.connections_asked,
    })
}

/// Applies to closed loops with keep-alive only: otherwise connections open on demand.
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

fn rate_not_kept(result: &LoadResult, traffic: &Traffic, rate_per_s: f64) -> Option<Warning> {
    let others = if result.backlog_close > result.backlog_open {
        let per_s = result.backlog_growth_per_s();
        Behind::Waiting { per_s }
    } else {
        let requests = late_count(result);
        Behind::Late { requests }
    };
    let unit = traffic.mix.rate_unit();
    match pace(result, traffic, result.incidents.stalled_backlog) {
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

/// Whether the server kept up with an open loop. `client_backlog` is the part of the final backlog
/// that was due while the client stalled.
pub fn pace(result: &LoadResult, traffic: &Traffic, client_backlog: u64) -> Pace {
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
        || queue_grows(result, traffic, arrivals, client_backlog)
        || queue_is_full(result, traffic)
    {
        Pace::ServerBehind
    } else {
        Pace::Kept
    }
}

/// Whether the rate was not kept, even if because of the client.
pub fn falls_behind(result: &LoadResult, traffic: &Traffic) -> bool {
    pace(result, traffic, 0) != Pace::Kept
}

/// Whether the backlog grew by more than 1 % of the planned requests and by more than chance
/// explains. Also, latencies must rise, or the growth must be much larger than the start of the
/// load explains.
///
/// By Little's law, a server with long latencies has many requests under way. Their number grows at
/// the start of a load without rising latencies.
fn queue_grows(
    result: &LoadResult,
    traffic: &Traffic,
    arrivals: Arrivals,
    client_backlog: u64,
) -> bool {
    let planned = result.planned as f64;
    let servers = result.backlog_close.saturating_sub(client_backlog);
    let growth = servers as f64 - result.backlog_open as f64;
    if growth <= f64::max(BEHIND_LIMIT * planned, by_chance(result, planned, arrivals)) {
        return false;
    }
    let rises = result.trend.slope().is_some_and(|(slope, error)| {
        slope > f64::max(SHOWN_SHARE * growth / planned, CHANCE_SIGMA * error)
    });
    rises || growth - filling(result, traffic) > STALL_LIMIT * planned
}

/// Growth of the backlog within the window because the load started shortly before: a request
/// adds to those under way for as long as its latency; so much of that as falls into the window.
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

/// Whether the queue has reached the length that deadlines allow, so that it no longer grows. That
/// is not so if the server only leaves some requests without a response.
fn queue_is_full(result: &LoadResult, traffic: &Traffic) -> bool {
    let planned_per_s = result.planned as f64 / result.seconds();
    let longest = planned_per_s * traffic.deadline.as_secs_f64();
    let is_late = late_count(result) as f64 > BEHIND_LIMIT * result.planned as f64;
    is_late && result.backlog_close as f64 > longest / 2.0
}

/// Whether fewer visitors got a connection than were due, by more than 1 % and more than chance.
fn visitors_wait(result: &LoadResult, rate_per_s: f64, arrivals: Arrivals) -> bool {
    let due = rate_per_s * result.seconds();
    let missing = due - result.sessions_begun as f64;
    // The first and the last visitor may lie on either side of the window's ends.
    let edge = 2.0;
    let chance = by_chance(result, due, arrivals);
    missing > f64::max(BEHIND_LIMIT * due, chance).max(edge)
}

/// Whether less than half of the connections had a request under way (by Little's law) and requests
/// did not time out, so that connections did not wait for the server.
fn connections_were_idle(result: &LoadResult, traffic: &Traffic) -> bool {
    let busy = result.ok_per_s() * result.service.mean_ns() / 1e9;
    let timed_out = late_count(result) - result.unsent;
    busy < f64::from(traffic.max_in_flight()) / 2.0
        && timed_out as f64 <= BEHIND_LIMIT * result.planned as f64
}

/// Growth of a backlog that chance explains: the variation of random arrivals; for equally spaced
/// ones, that of the number of requests under way.
fn by_chance(result: &LoadResult, due: f64, arrivals: Arrivals) -> f64 {
    let variance = match arrivals {
        Arrivals::Poisson => due,
        Arrivals::Constant => (result.backlog_open + result.backlog_close) as f64,
    };
    CHANCE_SIGMA * variance.sqrt()
}

/// Requests that were never sent or got no response by their deadline.
pub fn late_count(result: &LoadResult) -> u64 {
    let time_outs = [
        Fault::ConnectTimeout,
        Fault::FirstByteTimeout,
        Fault::WholeTimeout,
    ];
    let counts = time_outs.map(|fault| result.faults.get(&fault).copied().unwrap_or(0));
    result.unsent + counts.iter().sum::<u64>()
}

/// Whether the client's send delay broke a limit on latency at a quantile.
pub(crate) fn client_breaks(limit: Duration, quantile: f64, result: &LoadResult) -> bool {
    let send_delay_ns = result.lateness.quantile_ns(quantile);
    send_delay_ns as f64 > SEND_DELAY_OF_LIMIT * limit.as_nanos() as f64
}

/// Whether client threads busy-wait before a request is due.
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
