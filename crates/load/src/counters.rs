//! What one client thread counts. Nothing is shared while the load runs; threads are merged at the
//! end.

use std::collections::BTreeMap;

use record::incidents::Incidents;
use record::latency::Latency;
use record::load::{Fault, LoadResult};
use record::trend::Trend;

use crate::schedule::{ArrivalSequence, Schedule};
use crate::stall::StallWatch;
use crate::timeline::{Recorder, Timeline};
use crate::window::Window;

/// A request under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InFlight {
    pub(crate) scheduled_ns: u64,
    counts: bool,
}

impl InFlight {
    pub(crate) const NONE: Self = Self {
        scheduled_ns: 0,
        counts: false,
    };
}

/// A successful response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Success {
    pub(crate) body_bytes: u64,
    /// From sending to the last byte.
    pub(crate) service_ns: u64,
}

/// Counts of one thread.
///
/// A request counts when its scheduled send time lies in the window, however late its response
/// comes. The timeline instead shows what happened in each second of the window.
pub(crate) struct Counters {
    pub(crate) window: Window,
    /// Requests that count and have no outcome yet.
    pub(crate) pending: u64,
    pub(crate) cpu_ns: u64,
    /// Time that the thread was ready to run in the window and had no CPU.
    pub(crate) wait_ns: u64,
    sessions: u64,
    sessions_begun: u64,
    repeated: u64,
    planned: u64,
    ok: u64,
    /// Successful responses that came in the window, whenever they were due.
    ok_in_window: u64,
    /// Requests due and without an outcome when the window opened, and when it closed.
    backlog_open: u64,
    backlog_close: u64,
    unsent: u64,
    faults: BTreeMap<Fault, u64>,
    withdrawn: u64,
    /// Requests that may still be counted.
    budget: u64,
    body_bytes: u64,
    opened: u64,
    open_now: u64,
    held: u64,
    latency: Latency,
    /// Of an open loop.
    trend: Option<Trend>,
    service: Latency,
    send_delay: Latency,
    client_delay: Latency,
    speed_error_ppm: Latency,
    line_share_ppm: Latency,
    /// Successful requests that count, by the address of the server; empty where it has one.
    pub(crate) ok_by_server: Vec<u64>,
    pub(crate) recorder: Recorder,
    pub(crate) stall: StallWatch,
    pub(crate) incidents: Incidents,
}

impl Counters {
    /// `budget` is the number of requests that may count; 0 for any number.
    pub(crate) fn new(window: Window, budget: u64, recorder: Recorder) -> Self {
        Self {
            window,
            pending: 0,
            cpu_ns: 0,
            wait_ns: 0,
            sessions: 0,
            sessions_begun: 0,
            repeated: 0,
            planned: 0,
            ok: 0,
            ok_in_window: 0,
            backlog_open: 0,
            backlog_close: 0,
            unsent: 0,
            faults: BTreeMap::new(),
            withdrawn: 0,
            budget: if budget == 0 { u64::MAX } else { budget },
            body_bytes: 0,
            opened: 0,
            open_now: 0,
            held: 0,
            latency: Latency::new(),
            trend: None,
            service: Latency::new(),
            send_delay: Latency::new(),
            client_delay: Latency::new(),
            speed_error_ppm: Latency::new(),
            line_share_ppm: Latency::new(),
            ok_by_server: Vec::new(),
            recorder,
            stall: StallWatch::NEW,
            incidents: Incidents::default(),
        }
    }

    /// For requests of this schedule: only an open loop can fall behind, and only its latencies are
    /// followed.
    pub(crate) fn of(mut self, schedule: Schedule) -> Self {
        self.trend = match schedule {
            Schedule::Open { .. } => Some(Trend::default()),
            Schedule::Closed { .. } => None,
        };
        self
    }

    /// Whether as many requests have begun as are to be counted.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget == 0
    }

    /// A request begins.
    pub(crate) fn begin(&mut self, scheduled_ns: u64) -> InFlight {
        let counts = self.window.contains(scheduled_ns);
        self.planned += u64::from(counts);
        self.pending += u64::from(counts);
        self.budget -= u64::from(counts);
        InFlight {
            scheduled_ns,
            counts,
        }
    }

    /// A request is sent again.
    pub(crate) fn retry(&mut self, in_flight: InFlight) {
        self.repeated += u64::from(in_flight.counts);
    }

    /// A request that the server refused before it did anything is sent again.
    pub(crate) fn retry_refused(&mut self, in_flight: InFlight) {
        self.retry(in_flight);
        self.incidents.refused_streams += u64::from(in_flight.counts);
    }

    /// The client closed a connection that the server had left open after the last response.
    pub(crate) fn left_open(&mut self, now_ns: u64) {
        self.incidents.left_open += u64::from(self.window.contains(now_ns));
    }

    /// The thread is awake; a time at which it was held up is noted.
    pub(crate) fn wake(&mut self, now_ns: u64) {
        let Some(stall_ns) = self.stall.wake(now_ns) else {
            return;
        };
        if self.window.meets(now_ns - stall_ns, now_ns) {
            self.incidents.stalls += 1;
            self.incidents.stalled_ns += stall_ns;
            self.incidents.longest_stall_ns = self.incidents.longest_stall_ns.max(stall_ns);
        }
    }

    /// A visitor who was due has a connection.
    pub(crate) fn begin_session(&mut self, now_ns: u64) {
        self.sessions_begun += u64::from(self.window.contains(now_ns));
    }

    /// A visitor has gone.
    pub(crate) fn end_session(&mut self, now_ns: u64) {
        self.sessions += u64::from(self.window.contains(now_ns));
    }

    /// A connection was opened.
    pub(crate) fn connection_opened(&mut self, now_ns: u64) {
        self.opened += u64::from(self.window.contains(now_ns));
        self.open_now += 1;
        self.held = self.held.max(self.open_now);
    }

    /// A connection was closed.
    pub(crate) fn connection_closed(&mut self) {
        self.open_now -= 1;
    }

    /// The client began a request so much after it was due.
    pub(crate) fn record_send_delay(&mut self, in_flight: InFlight, delay_ns: u64) {
        if in_flight.counts {
            self.send_delay.record(delay_ns);
        }
    }

    /// Bytes had waited so long for the client to read them.
    pub(crate) fn record_client_delay(&mut self, now_ns: u64, delay_ns: u64) {
        if self.window.contains(now_ns) {
            self.client_delay.record(delay_ns);
        }
    }

    /// Successful responses that count, so far.
    pub(crate) fn ok(&self) -> u64 {
        self.ok
    }

    /// A successful response that counts came over a slow line whose speed was off by so many millionths, and from its request
    /// on at this share of the line's speed.
    pub(crate) fn record_speed(&mut self, error_ppm: u64, share_ppm: u64) {
        self.speed_error_ppm.record(error_ppm);
        self.line_share_ppm.record(share_ppm);
    }

    /// A successful response came from the server's address of this number.
    pub(crate) fn count_server(&mut self, in_flight: InFlight, server: u32) {
        let place = server as usize;
        if self.ok_by_server.len() <= place {
            self.ok_by_server.resize(place + 1, 0);
        }
        self.ok_by_server[place] += u64::from(in_flight.counts);
    }

    /// A request was due and nobody began it.
    pub(crate) fn leave_unsent(&mut self, scheduled_ns: u64, now_ns: u64) {
        let counts = self.window.contains(scheduled_ns);
        self.planned += u64::from(counts);
        self.unsent += u64::from(counts);
        self.budget -= u64::from(counts);
        self.count_backlog(scheduled_ns, now_ns);
    }

    /// All requests that were due before an instant, and that nobody can begin any more.
    pub(crate) fn leave_all_unsent(
        &mut self,
        arrivals: &mut ArrivalSequence,
        until_ns: u64,
        now_ns: u64,
    ) {
        let Window { open_ns, close_ns } = self.window;
        let before = arrivals.skip_to(until_ns.min(open_ns));
        let counted = arrivals.skip_to(until_ns.min(close_ns)).min(self.budget);
        arrivals.skip_to(until_ns);
        self.planned += counted;
        self.unsent += counted;
        self.budget -= counted;
        if open_ns <= now_ns {
            self.backlog_open += before;
        }
        if close_ns <= now_ns {
            self.backlog_close += before + counted;
        }
    }

    /// A request that was due had no outcome until now.
    fn count_backlog(&mut self, scheduled_ns: u64, now_ns: u64) {
        let Window { open_ns, close_ns } = self.window;
        self.backlog_open += u64::from(scheduled_ns < open_ns && open_ns <= now_ns);
        let is_left = scheduled_ns < close_ns && close_ns <= now_ns;
        self.backlog_close += u64::from(is_left);
        let is_own = is_left && self.stall.held_back(scheduled_ns);
        self.incidents.stalled_backlog += u64::from(is_own);
    }

    /// A request ended.
    pub(crate) fn end(
        &mut self,
        in_flight: InFlight,
        now_ns: u64,
        outcome: Result<Success, Fault>,
    ) {
        let (ok, faults, body_bytes) = match outcome {
            Ok(served) => (1, 0, served.body_bytes),
            Err(fault) => (0, u64::from(!fault.is_clients_own()), 0),
        };
        let bucket = self.recorder.bucket(now_ns);
        bucket.all_ok += ok;
        bucket.all_faults += faults;
        if self.window.contains(now_ns) {
            bucket.ok += ok;
            bucket.faults += faults;
            bucket.body_bytes += body_bytes;
            self.ok_in_window += ok;
        }
        let latency_ns = now_ns.saturating_sub(in_flight.scheduled_ns);
        // Those of the warm-up, and of the seconds after the window, are only shown.
        if ok > 0 && (now_ns < self.window.close_ns || self.window.close_ns <= bucket.begins_ns()) {
            bucket.latency.record(latency_ns);
        }
        if in_flight != InFlight::NONE {
            self.count_backlog(in_flight.scheduled_ns, now_ns);
        }
        if !in_flight.counts {
            return;
        }
        self.pending -= 1;
        let is_stalled = self.stall.touches(in_flight.scheduled_ns);
        self.incidents.stalled_requests += u64::from(is_stalled);
        match outcome {
            Ok(served) => {
                self.ok += 1;
                self.body_bytes += served.body_bytes;
                self.latency.record(latency_ns);
                if let Some(trend) = &mut self.trend {
                    trend.record(in_flight.scheduled_ns - self.window.open_ns, latency_ns);
                }
                self.service.record(served.service_ns);
            }
            Err(fault) => *self.faults.entry(fault).or_default() += 1,
        }
    }

    /// Closes the window now if it has not closed yet.
    pub(crate) fn close(&mut self, now_ns: u64) {
        self.window.close_ns = self.window.close_ns.min(now_ns);
    }

    /// A request under way is given up because the user ended the run: it was never planned.
    pub(crate) fn withdraw(&mut self, in_flight: InFlight) {
        self.pending -= u64::from(in_flight.counts);
        self.planned -= u64::from(in_flight.counts);
        self.withdrawn += u64::from(in_flight.counts);
        self.backlog_close += u64::from(in_flight != InFlight::NONE);
    }
}

/// Sums up the threads.
pub(crate) fn merge(all_counters: &[Counters], timeline: Timeline) -> LoadResult {
    let window_ns = all_counters
        .iter()
        .map(|counters| counters.window.length_ns())
        .max()
        .unwrap_or(0);
    let mut result = LoadResult {
        window_ns,
        ok_in_window: all_counters
            .iter()
            .map(|counters| counters.ok_in_window)
            .sum(),
        client_cpu_ns: all_counters
            .iter()
            .map(|counters| counters.cpu_ns)
            .collect(),
        client_wait_ns: all_counters
            .iter()
            .map(|counters| counters.wait_ns)
            .collect(),
        timeline: timeline.end(
            all_counters.iter().map(|counters| &counters.recorder),
            window_ns,
        ),
        ..LoadResult::default()
    };
    for counters in all_counters {
        add(&mut result, counters);
    }
    let accounted = result.ok + result.fault_count() + result.unsent;
    assert_eq!(
        result.planned, accounted,
        "every planned request has one outcome"
    );
    result
}

fn add(result: &mut LoadResult, counters: &Counters) {
    assert_eq!(
        counters.pending, 0,
        "a thread ends when all that counts has ended"
    );
    result.sessions += counters.sessions;
    result.sessions_begun += counters.sessions_begun;
    result.incidents.add(&counters.incidents);
    result.repeated += counters.repeated;
    result.planned += counters.planned;
    result.ok += counters.ok;
    result.unsent += counters.unsent;
    result.backlog_open += counters.backlog_open;
    result.backlog_close += counters.backlog_close;
    result.withdrawn += counters.withdrawn;
    result.connections_opened += counters.opened;
    result.connections_held += counters.held;
    result.body_bytes += counters.body_bytes;
    result.latency.merge(&counters.latency);
    result.trend.merge(&counters.trend.unwrap_or_default());
    result.service.merge(&counters.service);
    result.lateness.merge(&counters.send_delay);
    result.client_delay.merge(&counters.client_delay);
    result.speed_error_ppm.merge(&counters.speed_error_ppm);
    result.line_share_ppm.merge(&counters.line_share_ppm);
    for (fault, count) in &counters.faults {
        *result.faults.entry(*fault).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline;

    const SECOND_NS: u64 = 1_000_000_000;

    const WINDOW: Window = Window {
        open_ns: 10 * SECOND_NS,
        close_ns: 12 * SECOND_NS + SECOND_NS / 2,
    };

    const RIGHT: Result<Success, Fault> = Ok(Success {
        body_bytes: 7,
        service_ns: 1,
    });

    #[test]
    fn seconds_of_the_window_count_and_those_around_it_do_not() {
        let counts = |at_s: u64| WINDOW.meets(at_s * SECOND_NS, (at_s + 1) * SECOND_NS);
        let seen: Vec<_> = (8..14).map(counts).collect();
        // The window ends in the middle of the twelfth second.
        assert_eq!(seen, [false, false, true, true, true, false]);
    }

    /// What a thread's requests come to.
    fn check(work: impl FnOnce(&mut Counters)) -> LoadResult {
        let (mut recorders, timeline) = timeline::begin(1, WINDOW.open_ns);
        let mut counters = Counters::new(WINDOW, 0, recorders.remove(0));
        work(&mut counters);
        merge(&[counters], timeline)
    }

    fn ended(at_s: f64, took_s: f64, outcome: Result<Success, Fault>, counters: &mut Counters) {
        let scheduled_ns = (at_s * 1e9) as u64;
        let in_flight = counters.begin(scheduled_ns);
        counters.end(in_flight, scheduled_ns + (took_s * 1e9) as u64, outcome);
    }

    #[test]
    fn a_request_counts_by_its_planned_instant() {
        let result = check(|counters| {
            ended(9.9, 0.2, RIGHT, counters);
            ended(10.0, 0.1, RIGHT, counters);
            ended(12.4, 5.0, Err(Fault::Reset), counters);
            ended(12.5, 0.1, RIGHT, counters);
        });
        assert_eq!((result.planned, result.ok, result.fault_count()), (2, 1, 1));
        assert_eq!(result.latency.count(), 1);
        assert_eq!(result.window_ns, 2_500_000_000);
    }

    #[test]
    fn throughput_is_of_answers_that_came_in_the_window() {
        let result = check(|counters| {
            // Due before the window: answered before, in and after it.
            for took in [0.05, 0.2, 5.0] {
                ended(9.9, took, RIGHT, counters);
            }
            // Due in the window: answered in it and after it, failed after it, never sent.
            for took in [0.1, 5.0] {
                ended(11.0, took, RIGHT, counters);
            }
            ended(11.0, 5.0, Err(Fault::FirstByteTimeout), counters);
            counters.leave_unsent(12 * SECOND_NS, 20 * SECOND_NS);
        });
        assert_eq!((result.planned, result.ok), (4, 2));
        assert_eq!(result.ok_in_window, 2);
        assert!((result.ok_per_s() - 2.0 / 2.5).abs() < 1e-9);
        // What waited at the opening: the second and the third; at the close: the third, and three
        // of the window.
        assert_eq!((result.backlog_open, result.backlog_close), (2, 4));
    }

    #[test]
    fn the_timeline_shows_what_happened_when() {
        let result = check(|counters| {
            ended(9.9, 0.2, RIGHT, counters);
            ended(11.5, 0.1, Err(Fault::Reset), counters);
            ended(12.4, 0.05, RIGHT, counters);
            ended(12.4, 0.15, RIGHT, counters);
            ended(12.4, 5.0, RIGHT, counters);
            // The clients' own.
            ended(12.1, 0.1, Err(Fault::ClientLate), counters);
        });
        let seconds = result.timeline.iter();
        let seen: Vec<_> = seconds.map(|s| (s.at_ms, s.ok, s.faults)).collect();
        assert_eq!(seen, [(0, 1, 0), (1000, 0, 1), (2000, 1, 0)]);
        // Each latency is in the second of its response, that of a request due in the warm-up too.
        // The last two came after the window.
        let latencies = result.timeline.iter().map(|s| s.latency.unpack());
        let counts: Vec<_> = latencies.map(|latency| latency.count()).collect();
        assert_eq!(counts, [1, 0, 1]);
        assert_eq!(result.latency.count(), 3);
    }

    #[test]
    fn a_run_that_is_ended_early_has_a_shorter_window() {
        let result = check(|counters| {
            ended(10.2, 0.1, RIGHT, counters);
            let in_flight = counters.begin(11 * SECOND_NS);
            counters.close(11 * SECOND_NS);
            counters.withdraw(in_flight);
        });
        assert_eq!((result.planned, result.window_ns), (1, 1_000_000_000));
        assert_eq!(result.timeline.len(), 1);
    }
}
