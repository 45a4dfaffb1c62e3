//! Results of simulated clients: counts that add up, latencies, a second-by-second timeline.

mod fields;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::incidents::Incidents;
use crate::thinned::Point;
use crate::trend::Trend;
use base::latency::{Latency, Packed};

/// Why a request failed. Faults of the client are separate from those of the server.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The server refused the connection, or it could not be made.
    ConnectFailed,
    /// The connection was reset.
    Reset,
    /// The server closed the connection before the response was complete.
    EarlyClose,
    /// The request could not be written.
    WriteFailed,
    /// No connection within the deadline.
    ConnectTimeout,
    /// No first byte within the deadline.
    FirstByteTimeout,
    /// No complete response within the deadline.
    WholeTimeout,
    /// A status other than the expected one.
    BadStatus,
    /// A body of unexpected length.
    BadLength,
    /// A body of the right length with unexpected content.
    BadContent,
    /// The response is not HTTP.
    Malformed,
    /// The client ran out of source ports.
    ClientNoPort,
    /// The client ran out of file descriptors.
    ClientNoDescriptor,
    /// The client ran out of memory.
    ClientNoMemory,
    /// The client was too late to send the request.
    ClientLate,
}

impl Fault {
    /// Its name in records: `early-close`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the client, not the server, is to blame.
    pub fn is_clients_own(self) -> bool {
        matches!(
            self,
            Self::ClientNoPort | Self::ClientNoDescriptor | Self::ClientNoMemory | Self::ClientLate
        )
    }
}

/// Progress message of the clients, sent shortly after each second of load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Seconds since the load began, warm-up included.
    pub second: u32,
    /// Successful responses so far, warm-up included.
    pub ok: u64,
    /// Server faults so far, warm-up included.
    pub faults: u64,
    /// Latencies of this second's successful responses, from the scheduled send time. Agents omit them.
    #[serde(default, skip_serializing_if = "Packed::is_empty")]
    pub latency: Packed,
    /// Whether part of this second is in the window.
    pub counting: bool,
    /// Seconds of the window that ended since the last tick, and late parts of earlier ones. Together those of all ticks are the
    /// timeline, except for the seconds that were not over when the load ended.
    pub ended: Vec<Second>,
}

/// One second of a load run. In a long run, older seconds are joined (`thinned`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Start of the second, in milliseconds since the window opened.
    pub at_ms: u64,
    /// Requests with the expected response in this second.
    pub ok: u64,
    /// Requests that ended in a server fault in this second.
    pub faults: u64,
    /// Body bytes of successful requests.
    pub body_bytes: u64,
    /// Latencies of successful requests whose response came in this second, whenever they were due, to two significant digits.
    /// Responses after the window are in no second.
    #[serde(default, skip_serializing_if = "Packed::is_empty")]
    pub latency: Packed,
    /// Extremes of the seconds of which it is the sum; absent for a single second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedSeconds>,
}

/// Extremes of joined seconds, which their sum does not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedSeconds {
    /// Total length in milliseconds.
    pub length_ms: u64,
    /// Fewest requests with the expected response in a second.
    pub least_ok: u64,
    /// Most requests with the expected response in a second.
    pub most_ok: u64,
    /// Most server faults in a second.
    pub most_faults: u64,
    /// Time without an expected response.
    #[serde(default, skip_serializing_if = "Idle::is_none")]
    pub idle: Idle,
}

/// Stretches of whole consecutive seconds without a single expected response. If clients reported late on seconds that were joined
/// already, these are upper bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// Length of the longest stretch.
    pub longest_ms: u64,
    /// When the longest stretch began, in milliseconds since the window opened.
    pub longest_at_ms: u64,
    /// Length of the stretch at the beginning of the interval.
    pub first_ms: u64,
    /// Length of the stretch at the end of the interval.
    pub last_ms: u64,
}

impl Idle {
    /// Whether there was an expected response in every second.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Idle time of an interval of `length_ms` and the one that follows it, which begins at `later_at_ms` and lasts `later_ms`.
    #[must_use]
    fn then(self, length_ms: u64, later: Self, later_at_ms: u64, later_ms: u64) -> Self {
        let across_ms = self.last_ms.saturating_add(later.first_ms);
        let across = (across_ms, later_at_ms.saturating_sub(self.last_ms));
        let mut longest = (self.longest_ms, self.longest_at_ms);
        for other in [across, (later.longest_ms, later.longest_at_ms)] {
            if longest.0 < other.0 {
                longest = other;
            }
        }
        Self {
            longest_ms: longest.0,
            longest_at_ms: longest.1,
            first_ms: if self.first_ms == length_ms {
                length_ms.saturating_add(later.first_ms)
            } else {
                self.first_ms
            },
            last_ms: if later.last_ms == later_ms {
                later_ms.saturating_add(self.last_ms)
            } else {
                later.last_ms
            },
        }
    }
}

impl Second {
    /// Its length in milliseconds. The last second of a window counts as a whole one, although it is often shorter.
    pub fn length_ms(&self) -> u64 {
        self.joined.map_or(1000, |joined| joined.length_ms)
    }

    /// Its length in seconds.
    pub fn length_s(&self) -> f64 {
        self.length_ms() as f64 / 1e3
    }

    /// The extremes of its seconds, also for a single one.
    pub fn extremes(&self) -> JoinedSeconds {
        self.joined.unwrap_or(JoinedSeconds {
            length_ms: 1000,
            least_ok: self.ok,
            most_ok: self.ok,
            most_faults: self.faults,
            idle: self.single_idle(),
        })
    }

    /// Idle time of a single second.
    fn single_idle(&self) -> Idle {
        if self.ok > 0 {
            return Idle::default();
        }
        Idle {
            longest_ms: 1000,
            longest_at_ms: self.at_ms,
            first_ms: 1000,
            last_ms: 1000,
        }
    }

    /// Time without an expected response in consecutive points. Missing seconds do not count.
    pub fn idle_of(points: &[Self]) -> Idle {
        let (mut total, mut total_ms) = (Idle::default(), 0_u64);
        for (index, point) in points.iter().enumerate() {
            let (idle, length_ms) = (point.extremes().idle, point.length_ms());
            total = match index {
                0 => idle,
                _ => total.then(total_ms, idle, point.at_ms, length_ms),
            };
            total_ms = total_ms.saturating_add(length_ms);
        }
        total
    }

    /// Whether no request ended in it.
    pub fn is_idle(&self) -> bool {
        self.ok == 0 && self.faults == 0
    }
}

impl Point for Second {
    const HAS_PARTS: bool = true;

    fn time_ms(&self) -> i64 {
        i64::try_from(self.at_ms).unwrap_or(i64::MAX)
    }

    fn join(group: &[Self]) -> Self {
        if let [alone] = group {
            return alone.clone();
        }
        let sum = |field: fn(&Self) -> u64| group.iter().map(field).fold(0, u64::saturating_add);
        let extremes = || group.iter().map(Self::extremes);
        Self {
            at_ms: group.first().map_or(0, |first| first.at_ms),
            ok: sum(|second| second.ok),
            faults: sum(|second| second.faults),
            body_bytes: sum(|second| second.body_bytes),
            latency: Packed::sum(group.iter().map(|second| &second.latency)),
            joined: Some(JoinedSeconds {
                length_ms: sum(Self::length_ms),
                least_ok: extremes().map(|second| second.least_ok).min().unwrap_or(0),
                most_ok: extremes().map(|second| second.most_ok).max().unwrap_or(0),
                most_faults: extremes()
                    .map(|second| second.most_faults)
                    .max()
                    .unwrap_or(0),
                idle: Self::idle_of(group),
            }),
        }
    }

    /// Extremes of joined seconds become bounds: the highest of both together is at most the sum of the highest of each.
    fn add(&mut self, part: &Self) {
        if let Some(joined) = &mut self.joined {
            let extremes = part.extremes();
            // A single second falls into one of the joined seconds, so the lowest of them may stay the same.
            if part.joined.is_some() {
                joined.least_ok = joined.least_ok.saturating_add(extremes.least_ok);
            }
            joined.most_ok = joined.most_ok.saturating_add(extremes.most_ok);
            joined.most_faults = joined.most_faults.saturating_add(extremes.most_faults);
            if part.joined.is_some() && extremes.idle.longest_ms < joined.idle.longest_ms {
                joined.idle = extremes.idle;
            }
        }
        self.ok = self.ok.saturating_add(part.ok);
        self.faults = self.faults.saturating_add(part.faults);
        self.body_bytes = self.body_bytes.saturating_add(part.body_bytes);
        self.latency.merge(&part.latency);
    }
}

/// Result of one load run. It covers the window only, not the warm-up.
///
/// `planned = ok + sum of faults + unsent` holds exactly. For a closed loop `planned` counts the requests begun in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Length of the window as measured, in nanoseconds.
    pub window_ns: u64,
    /// Requests in the schedule.
    pub planned: u64,
    /// Requests answered with the expected status, length and content.
    pub ok: u64,
    /// Expected responses that came within the window, whenever their requests were due.
    pub ok_in_window: u64,
    /// Requests that were due and had no outcome yet when the window opened.
    pub backlog_open: u64,
    /// Requests that were due and had no outcome yet when the window closed.
    pub backlog_close: u64,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Faults by class; a class that did not occur is absent.
    pub faults: BTreeMap<Fault, u64>,
    /// Connections that the plan asks for.
    pub connections_asked: u64,
    /// Connections opened, over the whole window.
    pub connections_opened: u64,
    /// Most connections open at once since the load began; fewer than asked for indicates a limit.
    pub connections_held: u64,
    /// Body bytes of successful requests.
    pub body_bytes: u64,
    /// Successful requests by the server's address, where connections go to several; every address is present.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ok_by_address: BTreeMap<String, u64>,
    /// Latency from the scheduled send time (so corrected for coordinated omission) to the last byte, in nanoseconds. Successful requests
    /// only.
    pub latency: Latency,
    /// Time from sending a request to the last byte, without connecting, in nanoseconds. Successful requests only.
    pub service: Latency,
    /// Send delay: how late the client itself began requests that were due, in nanoseconds. It leaves out the wait for a free
    /// connection, which is due to the server. Empty for clients without think time.
    pub lateness: Latency,
    /// Time that received bytes waited for the client to read them, in nanoseconds: from the kernel's receive time stamp to the read, on
    /// one read in 64. This part of a latency is due to the client. Empty without time stamps: in trials, with `io_uring` and HTTP/2,
    /// and if the kernel refuses.
    pub client_delay: Latency,
    /// Relative error of the speed of slow links, in millionths, one for each successful response over one. It compares the time from the
    /// first byte to the last with the time at the planned speed; faster and slower count alike. Empty without slow links.
    pub speed_error_ppm: Latency,
    /// Share of a slow link's speed that each successful response reached, in millionths: the time of its bytes at that speed, over the
    /// time from the scheduled send time to the last byte. Empty without slow links.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub line_share_ppm: Latency,
    /// Requests sent again on a new connection because the server closed a persistent one before it had answered anything. RFC 9112
    /// (section 9.3.1) allows that at any time, so they are faults only if the second attempt fails.
    pub repeated: u64,
    /// Requests abandoned because the user ended the run early; not part of `planned`.
    pub withdrawn: u64,
    /// Sessions that ended in the window, for clients with sessions.
    pub sessions: u64,
    /// Visitors who got a connection in the window, whenever they were due, for visitors who arrive at a rate.
    pub sessions_begun: u64,
    /// Incidents beside the requests: stalls of the client, connections left open.
    pub incidents: Incidents,
    /// Whether latencies rose during the window, in an open loop: those of a growing queue do, those of slow requests do not.
    #[serde(default, skip_serializing_if = "Trend::is_empty")]
    pub trend: Trend,
    /// The window second by second. In windows longer than an hour older seconds are joined (`thinned`).
    pub timeline: Vec<Second>,
    /// CPU time of each client thread in the window, in nanoseconds.
    pub client_cpu_ns: Vec<u64>,
    /// Time for which each client thread was runnable in the window and had no CPU, because of other threads or a quota, in
    /// nanoseconds. Empty if it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_wait_ns: Vec<u64>,
    /// CPUs on which client threads could run, of those of their host: `0-1 of 2`. Empty if unknown.
    pub client_cpus: String,
    /// CPU time of all CPUs of the client's host while the load ran, warm-up and end included, in nanoseconds; 0 if unknown.
    pub host_cpu_ns: u64,
    /// Part of `host_cpu_ns` that the hypervisor gave to other machines (steal).
    pub stolen_ns: u64,
    /// How the engine waits for sockets: `epoll`, `io_uring`.
    pub engine: String,
    /// Why it is not the faster engine; empty if it is.
    pub engine_note: String,
}

impl LoadResult {
    /// All faults together.
    pub fn fault_count(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Share of the window for which the busiest client thread ran or waited for a CPU; 0 without a thread.
    pub fn client_busy(&self) -> f64 {
        let waits = self.client_wait_ns.iter().chain(std::iter::repeat(&0));
        let busy = self.client_cpu_ns.iter().zip(waits);
        let most = busy.map(|(cpu, wait)| cpu.saturating_add(*wait)).max();
        most.unwrap_or(0) as f64 / self.window_ns.max(1) as f64
    }

    /// Longest wait of a client thread for a CPU, as a share of the window; 0 if it was not measured.
    pub fn client_waited(&self) -> f64 {
        let most = self.client_wait_ns.iter().max();
        *most.unwrap_or(&0) as f64 / self.window_ns.max(1) as f64
    }

    /// Share of the client host's CPU time that the hypervisor gave to other machines.
    pub fn stolen(&self) -> f64 {
        self.stolen_ns as f64 / self.host_cpu_ns.max(1) as f64
    }

    /// The lowest of these quantiles that client stalls affect; `None` if there is none.
    ///
    /// A stall affects a quantile if at least as many requests waited as lie above it, and the longest stall is more than a tenth of
    /// it: that changes the second digit.
    pub fn stalled_quantile(&self, quantiles: impl IntoIterator<Item = f64>) -> Option<f64> {
        const SHOWN_SHARE: f64 = 0.1;
        let Incidents {
            longest_stall_ns,
            stalled_requests,
            ..
        } = self.incidents;
        let is_affected = |quantile: &f64| {
            let above = (1.0 - quantile) * self.latency.count() as f64;
            let latency_ns = self.latency.quantile_ns(*quantile) as f64;
            stalled_requests as f64 >= above && longest_stall_ns as f64 > SHOWN_SHARE * latency_ns
        };
        let quantiles = quantiles.into_iter().filter(is_affected);
        quantiles.filter(|_| stalled_requests > 0).reduce(f64::min)
    }

    /// Successful requests per second. Only responses within the window count.
    pub fn ok_per_s(&self) -> f64 {
        self.ok_in_window as f64 / self.seconds()
    }

    /// Visitors who got a connection, per second of the window.
    pub fn sessions_begun_per_s(&self) -> f64 {
        self.sessions_begun as f64 / self.seconds()
    }

    /// Visitors who left, per second of the window.
    pub fn sessions_ended_per_s(&self) -> f64 {
        self.sessions as f64 / self.seconds()
    }

    /// Growth of the backlog from the window's opening to its closing, in requests per second; negative if it shrank.
    pub fn backlog_growth_per_s(&self) -> f64 {
        (self.backlog_close as f64 - self.backlog_open as f64) / self.seconds()
    }

    /// Length of the window as measured.
    pub fn seconds(&self) -> f64 {
        self.window_ns as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thinned::Thinned;

    fn second(at_ms: u64, ok: u64, faults: u64) -> Second {
        let mut latency = Latency::coarse();
        (0..ok).for_each(|number| latency.record(1000 * (number + 1)));
        Second {
            at_ms,
            ok,
            faults,
            body_bytes: 10 * ok,
            latency: latency.pack(),
            joined: None,
        }
    }

    #[test]
    fn joined_seconds_keep_their_extremes() {
        let all = [second(0, 5, 0), second(1000, 2, 7), second(2000, 9, 1)];
        let joined = Second::join(&[Second::join(&all[..2]), all[2].clone()]);
        assert_eq!(joined, Second::join(&all));
        assert_eq!((joined.ok, joined.faults, joined.body_bytes), (16, 8, 160));
        let extremes = JoinedSeconds {
            length_ms: 3000,
            least_ok: 2,
            most_ok: 9,
            most_faults: 7,
            idle: Idle::default(),
        };
        assert_eq!(joined.joined, Some(extremes));
        assert_eq!(joined.latency.unpack().count(), 16);
        assert_eq!(Second::join(&all[..1]), all[0]);
    }

    #[test]
    fn two_hours_of_seconds_keep_every_request_and_every_latency() {
        let mut series = Thinned::default();
        for number in 0..7200 {
            series.push(second(number * 1000, number % 7, number % 2));
        }
        let sum = |field: fn(&Second) -> u64| series.iter().map(field).sum::<u64>();
        let expected = (0..7200).map(|number| number % 7).sum::<u64>();
        assert_eq!(sum(|second| second.ok), expected);
        assert_eq!(sum(|second| second.latency.unpack().count()), expected);
        assert_eq!(sum(|second| second.faults), 3600);
        assert_eq!(sum(Second::length_ms), 7_200_000);
    }

    #[test]
    fn the_longest_idle_time_is_exact_however_seconds_are_joined() {
        let silent = |number: u64| (95..=130).contains(&number) || number == 7 || number > 195;
        let all: Vec<Second> = (0..200)
            .map(|number| second(number * 1000, u64::from(!silent(number)), 0))
            .collect();
        let expected = Idle {
            longest_ms: 36_000,
            longest_at_ms: 95_000,
            first_ms: 0,
            last_ms: 4000,
        };
        assert_eq!(Second::idle_of(&all), expected);
        for size in [1, 7, 60, 64, 199] {
            let joined: Vec<Second> = all.chunks(size).map(Second::join).collect();
            assert_eq!(Second::idle_of(&joined), expected, "{size}");
        }
        let all_silent = Second::join(&all[95..=130]);
        assert_eq!(all_silent.extremes().idle.first_ms, 36_000);
        assert_eq!(Second::idle_of(&[]), Idle::default());
    }

    #[test]
    fn a_second_is_serialized_as_it_was_read() {
        let text = r#"{"at_ms":3000,"ok":5,"faults":0,"body_bytes":9}"#;
        let read: Second = serde_json::from_str(text).unwrap();
        assert_eq!(read.length_ms(), 1000);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
