//! What simulated clients saw: counts that add up, latencies, a second-by-second timeline.

mod fields;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::incidents::Incidents;
use crate::latency::{Latency, Packed};
use crate::thinned::Point;
use crate::trend::Trend;

/// Why a request did not count as served. The client's own faults stand apart from the server's.
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
    /// The server closed before the response was whole.
    EarlyClose,
    /// The request could not be written.
    WriteFailed,
    /// No connection within the deadline.
    ConnectTimeout,
    /// No first byte within the deadline.
    FirstByteTimeout,
    /// The response was not whole within the deadline.
    WholeTimeout,
    /// A status other than the expected one.
    BadStatus,
    /// A body of another length than expected.
    BadLength,
    /// A body of the right length and the wrong content.
    BadContent,
    /// Not HTTP.
    Malformed,
    /// The client had no source port left.
    ClientNoPort,
    /// The client had no descriptor left.
    ClientNoDescriptor,
    /// The client had no memory left.
    ClientNoMemory,
    /// The client was too late to send it.
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

/// A second of load has passed; told shortly after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Seconds since the load began, warm-up included.
    pub second: u32,
    /// Successful responses so far, warm-up included.
    pub ok: u64,
    /// Faults so far, warm-up included, but for the clients' own.
    pub faults: u64,
    /// Latencies from the scheduled send time of the successful responses of this second alone. An agent leaves them out.
    #[serde(default, skip_serializing_if = "Packed::is_empty")]
    pub latency: Packed,
    /// Whether some of this second is in the window.
    pub counting: bool,
    /// Seconds of the window that have ended since the last tick, and parts of earlier ones that came late: all of them
    /// together are the timeline, but for the seconds that were not over when the load ended.
    pub ended: Vec<Second>,
}

/// One second of a load run; of a long one, where it is old, several seconds as one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Start of the second, in milliseconds since the window opened.
    pub at_ms: u64,
    /// Requests with the expected response in this second.
    pub ok: u64,
    /// Requests that ended in a fault, but for the clients' own.
    pub faults: u64,
    /// Body bytes of successful requests.
    pub body_bytes: u64,
    /// Latencies of successful requests whose response came in this second, whenever they were due,
    /// to two significant digits. Those that come after the window are in no second.
    #[serde(default, skip_serializing_if = "Packed::is_empty")]
    pub latency: Packed,
    /// Of how many seconds it is the sum; absent where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedSeconds>,
}

/// What a sum of seconds no longer shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedSeconds {
    /// Their length together, in milliseconds.
    pub length_ms: u64,
    /// Fewest requests with the expected response in any of them.
    pub least_ok: u64,
    /// Most of them.
    pub most_ok: u64,
    /// Most requests that ended in a fault in any of them.
    pub most_faults: u64,
    /// The time without an expected response.
    #[serde(default, skip_serializing_if = "Idle::is_none")]
    pub idle: Idle,
}

/// Time without a single request with the expected response, in whole seconds that follow upon each other. Where clients told late of
/// seconds that were one already, it is at the most this.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// The longest such time.
    pub longest_ms: u64,
    /// When it began, in milliseconds since the window opened.
    pub longest_at_ms: u64,
    /// How much of such time is at the beginning of what is looked at.
    pub first_ms: u64,
    /// How much is at its end.
    pub last_ms: u64,
}

impl Idle {
    /// Whether there was an expected response in every second.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Of some time and what follows upon it: where each begins, and how long each is.
    #[must_use]
    pub fn then(self, length_ms: u64, later: Self, (later_at_ms, later_ms): (u64, u64)) -> Self {
        let seam_ms = self.last_ms.saturating_add(later.first_ms);
        let seam = (seam_ms, later_at_ms.saturating_sub(self.last_ms));
        let mut longest = (self.longest_ms, self.longest_at_ms);
        for other in [seam, (later.longest_ms, later.longest_at_ms)] {
            if longest.0 < other.0 {
                longest = other;
            }
        }
        let whole = |part_ms: u64, of_ms: u64| part_ms == of_ms;
        Self {
            longest_ms: longest.0,
            longest_at_ms: longest.1,
            first_ms: if whole(self.first_ms, length_ms) {
                length_ms.saturating_add(later.first_ms)
            } else {
                self.first_ms
            },
            last_ms: if whole(later.last_ms, later_ms) {
                later_ms.saturating_add(self.last_ms)
            } else {
                later.last_ms
            },
        }
    }
}

impl Second {
    /// Its length in milliseconds. The last second of a window is seldom a whole one, which is not seen here.
    pub fn length_ms(&self) -> u64 {
        self.joined.map_or(1000, |joined| joined.length_ms)
    }

    /// Its length in seconds.
    pub fn length_s(&self) -> f64 {
        self.length_ms() as f64 / 1e3
    }

    /// What a sum of it alone would say.
    pub fn extremes(&self) -> JoinedSeconds {
        self.joined.unwrap_or(JoinedSeconds {
            length_ms: 1000,
            least_ok: self.ok,
            most_ok: self.ok,
            most_faults: self.faults,
            idle: self.own_idle(),
        })
    }

    /// Of a single second.
    fn own_idle(&self) -> Idle {
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

    /// The time without an expected response in points that follow upon each other. Seconds that nobody told of are not in it.
    pub fn idle_of(points: &[Self]) -> Idle {
        let mut all = (Idle::default(), 0);
        for (index, point) in points.iter().enumerate() {
            let (idle, length_ms) = (point.extremes().idle, point.length_ms());
            all.0 = match index {
                0 => idle,
                _ => all.0.then(all.1, idle, (point.at_ms, length_ms)),
            };
            all.1 = all.1.saturating_add(length_ms);
        }
        all.0
    }

    /// Whether nothing happened in it.
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
        let sum = |of: fn(&Self) -> u64| group.iter().map(of).fold(0, u64::saturating_add);
        let extremes = || group.iter().map(Self::extremes);
        Self {
            at_ms: group.first().map_or(0, |first| first.at_ms),
            ok: sum(|one| one.ok),
            faults: sum(|one| one.faults),
            body_bytes: sum(|one| one.body_bytes),
            latency: Packed::sum(group.iter().map(|one| &one.latency)),
            joined: Some(JoinedSeconds {
                length_ms: sum(Self::length_ms),
                least_ok: extremes().map(|one| one.least_ok).min().unwrap_or(0),
                most_ok: extremes().map(|one| one.most_ok).max().unwrap_or(0),
                most_faults: extremes().map(|one| one.most_faults).max().unwrap_or(0),
                idle: Self::idle_of(group),
            }),
        }
    }

    /// Of seconds that are sums already, and in which others saw something too, the extremes become bounds: the most of
    /// all together is no more than both.
    fn add(&mut self, part: &Self) {
        if let Some(joined) = &mut self.joined {
            let theirs = part.extremes();
            // A single second lies in one of these, and leaves the least of them what it was.
            if part.joined.is_some() {
                joined.least_ok = joined.least_ok.saturating_add(theirs.least_ok);
            }
            joined.most_ok = joined.most_ok.saturating_add(theirs.most_ok);
            joined.most_faults = joined.most_faults.saturating_add(theirs.most_faults);
            if part.joined.is_some() && theirs.idle.longest_ms < joined.idle.longest_ms {
                joined.idle = theirs.idle;
            }
        }
        self.ok = self.ok.saturating_add(part.ok);
        self.faults = self.faults.saturating_add(part.faults);
        self.body_bytes = self.body_bytes.saturating_add(part.body_bytes);
        self.latency.merge(&part.latency);
    }
}

/// The result of one load run, window only: warm-up is left out.
///
/// `planned = ok + sum of faults + unsent` holds exactly; for a closed loop `planned` counts the
/// requests begun in the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Length of the window as measured, in nanoseconds.
    pub window_ns: u64,
    /// Requests that the schedule asked for.
    pub planned: u64,
    /// Requests answered with the right status, length and content.
    pub ok: u64,
    /// Successful requests that came within the window, whenever they were due: what the server did in it.
    pub ok_in_window: u64,
    /// Requests that were due and had no outcome yet when the window opened.
    pub backlog_open: u64,
    /// Requests that were due and had no outcome yet when the window closed.
    pub backlog_close: u64,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Faults by class; a class that did not occur is absent.
    pub faults: BTreeMap<Fault, u64>,
    /// Connections asked for.
    pub connections_asked: u64,
    /// Connections opened, over the whole window.
    pub connections_opened: u64,
    /// Most connections open at once since the load began; less than asked tells of a limit.
    pub connections_held: u64,
    /// Body bytes of successful requests.
    pub body_bytes: u64,
    /// Requests answered rightly, by the server's address, where connections go to several; all of these are there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ok_by_address: BTreeMap<String, u64>,
    /// Latency from the scheduled send time (so corrected for coordinated omission) to the last byte, in nanoseconds, successful requests only.
    pub latency: Latency,
    /// Time from sending a request, connecting left out, to the last byte, in nanoseconds, successful requests only.
    pub service: Latency,
    /// Send delay: how late the client itself was to begin requests that were due, in nanoseconds; empty for clients
    /// that go on at once. Waiting for a free connection is the server's doing and not part of it.
    pub lateness: Latency,
    /// How long bytes that had come waited for the client to read them, in nanoseconds: from the kernel's receive
    /// stamp to the read, on one read in 64. This much of a latency is the client's own. Empty where stamps are not
    /// taken: in trials, with `io_uring` and HTTP/2, and where the kernel refuses.
    pub client_delay: Latency,
    /// Relative error of the speed of slow links, in millionths, one for each successful response read over one: how far
    /// the time from its first byte to its last is from what its bytes take at the speed asked for. Shorter and
    /// longer count alike. Empty where links are not slow.
    pub speed_error_ppm: Latency,
    /// Share of its line's speed at which each successful response over a slow link came, in millionths: what its bytes take at
    /// that speed, over the time from the instant at which its request was to be sent to its last byte. Empty where links are
    /// not slow.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub line_share_ppm: Latency,
    /// Requests sent again on a new connection because the server closed a kept one before it had answered
    /// anything, which RFC 9112 allows it at any time (section 9.3.1). They are faults only if they fail then.
    pub repeated: u64,
    /// Requests given up because the user ended the run early; not part of `planned`.
    pub withdrawn: u64,
    /// Sessions that ended in the window, where clients play sessions.
    pub sessions: u64,
    /// Visitors who got a connection in the window, whenever they were due, where they arrive at a
    /// rate.
    pub sessions_begun: u64,
    /// What happened beside the requests: times at which a client itself was held up, connections left open.
    pub incidents: Incidents,
    /// Whether latencies rose while the window lasted, of an open loop: a queue that grows shows in
    /// them, and requests that merely take long do not.
    #[serde(default, skip_serializing_if = "Trend::is_empty")]
    pub trend: Trend,
    /// The window second by second; of a window longer than an hour, what was older at its end by minutes, and what was older than a
    /// day by ten minutes (`thinned`).
    pub timeline: Vec<Second>,
    /// CPU time of each client thread in the window, in nanoseconds.
    pub client_cpu_ns: Vec<u64>,
    /// Time that each client thread was ready to run in the window and had no CPU, for other threads or for a quota, in
    /// nanoseconds. Empty where nobody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_wait_ns: Vec<u64>,
    /// CPUs that client threads could run on, of those of their host: `0-1 of 2`. Empty where nobody noted it.
    pub client_cpus: String,
    /// CPU time that the client's host had while the load ran, warm-up and end included, in nanoseconds, all its
    /// CPUs together; 0 where nobody noted it.
    pub host_cpu_ns: u64,
    /// How much of that the hypervisor gave to others (steal).
    pub stolen_ns: u64,
    /// How the engine waits for sockets: `epoll`, `io_uring`.
    pub engine: String,
    /// Why it is not the faster one; empty when it is.
    pub engine_note: String,
}

impl LoadResult {
    /// All faults together.
    pub fn fault_count(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Share of the window that the busiest client thread ran, or was ready to run and had no CPU; 0 without a thread.
    pub fn client_busy(&self) -> f64 {
        let waits = self.client_wait_ns.iter().chain(std::iter::repeat(&0));
        let busy = self.client_cpu_ns.iter().zip(waits);
        let most = busy.map(|(cpu, wait)| cpu.saturating_add(*wait)).max();
        most.unwrap_or(0) as f64 / self.window_ns.max(1) as f64
    }

    /// Share of the window that the client thread that waited most was ready to run and had no CPU; 0 where nobody looked.
    pub fn client_waited(&self) -> f64 {
        let most = self.client_wait_ns.iter().max();
        *most.unwrap_or(&0) as f64 / self.window_ns.max(1) as f64
    }

    /// Share of the client host's CPU time that the hypervisor gave to others.
    pub fn stolen(&self) -> f64 {
        self.stolen_ns as f64 / self.host_cpu_ns.max(1) as f64
    }

    /// The lowest of some quantiles in which stalls of the clients show: as many requests waited for a stall as the quantile leaves
    /// out, and the longest stall is more than a tenth of it, which changes the second digit. `None` where no stall shows.
    pub fn stalled_quantile(&self, quantiles: impl IntoIterator<Item = f64>) -> Option<f64> {
        const SHOWN_SHARE: f64 = 0.1;
        let Incidents {
            longest_stall_ns,
            stalled_requests,
            ..
        } = self.incidents;
        let shows = |quantile: &f64| {
            let above = (1.0 - quantile) * self.latency.count() as f64;
            let latency_ns = self.latency.quantile_ns(*quantile) as f64;
            stalled_requests as f64 >= above && longest_stall_ns as f64 > SHOWN_SHARE * latency_ns
        };
        let quantiles = quantiles.into_iter().filter(shows);
        quantiles.filter(|_| stalled_requests > 0).reduce(f64::min)
    }

    /// Successful requests per second: those that came within the window. One that came later is late, and no part of what the
    /// server did in the window.
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

    /// Requests per second by which those that waited became more between the window's two ends; negative when they
    /// became fewer.
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
    fn seconds_become_one_and_keep_their_extremes() {
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
        let sum = |of: fn(&Second) -> u64| series.iter().map(of).sum::<u64>();
        let expected = (0..7200).map(|number| number % 7).sum::<u64>();
        assert_eq!(sum(|one| one.ok), expected);
        assert_eq!(sum(|one| one.latency.unpack().count()), expected);
        assert_eq!(sum(|one| one.faults), 3600);
        assert_eq!(sum(Second::length_ms), 7_200_000);
    }

    #[test]
    fn the_longest_silence_is_kept_exactly_however_seconds_are_joined() {
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
    fn a_record_of_a_second_is_what_it_was() {
        let text = r#"{"at_ms":3000,"ok":5,"faults":0,"body_bytes":9}"#;
        let read: Second = serde_json::from_str(text).unwrap();
        assert_eq!(read.length_ms(), 1000);
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
