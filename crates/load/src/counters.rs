//! What one client thread counts. Threads share nothing during the load and are merged at the end.

use base::latency::Latency;
use record::load::{Fault, LoadResult};

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
    /// Requests that may still be counted.
    budget: u64,
    connections_open: u64,
    /// Only an open loop can fall behind, so only its latencies are checked for a trend.
    is_open_loop: bool,
    /// Successful requests that count, by server address; empty if there is only one address.
    pub(crate) ok_by_server: Vec<u64>,
    pub(crate) recorder: Recorder,
    pub(crate) stall: StallWatch,
    /// This thread's part of the result; its window and timeline are filled in by `merge`.
    result: LoadResult,
}

impl Counters {
    /// `budget` is the number of requests that may count; 0 means any number.
    pub(crate) fn new(window: Window, budget: u64, recorder: Recorder) -> Self {
        Self {
            window,
            pending: 0,
            budget: if budget == 0 { u64::MAX } else { budget },
            connections_open: 0,
            is_open_loop: false,
            ok_by_server: Vec::new(),
            recorder,
            stall: StallWatch::NEW,
            // Histograms are allocated before the load starts, not while it is measured.
            result: LoadResult {
                latency: Latency::new(),
                service: Latency::new(),
                lateness: Latency::new(),
                client_delay: Latency::new(),
                speed_error_ppm: Latency::new(),
                line_share_ppm: Latency::new(),
                ..LoadResult::default()
            },
        }
    }

    pub(crate) fn for_schedule(mut self, schedule: Schedule) -> Self {
        self.is_open_loop = matches!(schedule, Schedule::Open { .. });
        self
    }

    /// Whether as many requests have begun as are to be counted.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget == 0
    }

    /// A request begins.
    pub(crate) fn begin(&mut self, scheduled_ns: u64) -> InFlight {
        let counts = self.window.contains(scheduled_ns);
        self.result.planned += u64::from(counts);
        self.pending += u64::from(counts);
        self.budget -= u64::from(counts);
        InFlight {
            scheduled_ns,
            counts,
        }
    }

    /// A request is sent again.
    pub(crate) fn retry(&mut self, in_flight: InFlight) {
        self.result.repeated += u64::from(in_flight.counts);
    }

    /// A request that the server refused before processing it is sent again.
    pub(crate) fn retry_refused(&mut self, in_flight: InFlight) {
        self.retry(in_flight);
        self.result.incidents.refused_streams += u64::from(in_flight.counts);
    }

    /// The client closed a connection that the server had left open after the last response.
    pub(crate) fn left_open(&mut self, now_ns: u64) {
        self.result.incidents.left_open += u64::from(self.window.contains(now_ns));
    }

    /// The thread is awake. Records a stall if it woke too late.
    pub(crate) fn wake(&mut self, now_ns: u64) {
        let Some(stall_ns) = self.stall.wake(now_ns) else {
            return;
        };
        if self.window.meets(now_ns - stall_ns, now_ns) {
            let incidents = &mut self.result.incidents;
            incidents.stalls += 1;
            incidents.stalled_ns += stall_ns;
            incidents.longest_stall_ns = incidents.longest_stall_ns.max(stall_ns);
        }
    }

    /// A visitor got a connection.
    pub(crate) fn begin_session(&mut self, now_ns: u64) {
        self.result.sessions_begun += u64::from(self.window.contains(now_ns));
    }

    /// A visitor left.
    pub(crate) fn end_session(&mut self, now_ns: u64) {
        self.result.sessions += u64::from(self.window.contains(now_ns));
    }

    pub(crate) fn connection_opened(&mut self, now_ns: u64) {
        self.result.connections_opened += u64::from(self.window.contains(now_ns));
        self.connections_open += 1;
        let held = &mut self.result.connections_held;
        *held = self.connections_open.max(*held);
    }

    pub(crate) fn connection_closed(&mut self) {
        self.connections_open -= 1;
    }

    /// Records how long after its scheduled time the client began a request.
    pub(crate) fn record_send_delay(&mut self, in_flight: InFlight, delay_ns: u64) {
        if in_flight.counts {
            self.result.lateness.record(delay_ns);
        }
    }

    /// Records how long received bytes waited for the client to read them.
    pub(crate) fn record_client_delay(&mut self, now_ns: u64, delay_ns: u64) {
        if self.window.contains(now_ns) {
            self.result.client_delay.record(delay_ns);
        }
    }

    /// Successful responses that count, so far.
    pub(crate) fn ok(&self) -> u64 {
        self.result.ok
    }

    /// Records the speed of a successful response over a slow line, in millionths: its error, and
    /// its share of the line's speed counted from the scheduled send time.
    pub(crate) fn record_speed(&mut self, error_ppm: u64, share_ppm: u64) {
        self.result.speed_error_ppm.record(error_ppm);
        self.result.line_share_ppm.record(share_ppm);
    }

    /// Records the CPU time and the run-queue wait of this thread within the window.
    pub(crate) fn record_cpu(&mut self, cpu_ns: u64, wait_ns: u64) {
        self.result.client_cpu_ns.push(cpu_ns);
        self.result.client_wait_ns.push(wait_ns);
    }

    /// Counts a successful response for the server address with this index.
    pub(crate) fn count_server(&mut self, in_flight: InFlight, server: u32) {
        let index = server as usize;
        if self.ok_by_server.len() <= index {
            self.ok_by_server.resize(index + 1, 0);
        }
        self.ok_by_server[index] += u64::from(in_flight.counts);
    }

    /// A request was due and was never begun.
    pub(crate) fn leave_unsent(&mut self, scheduled_ns: u64, now_ns: u64) {
        let counts = self.window.contains(scheduled_ns);
        self.result.planned += u64::from(counts);
        self.result.unsent += u64::from(counts);
        self.budget -= u64::from(counts);
        self.count_backlog(scheduled_ns, now_ns);
    }

    /// Skips all requests that were due before `until_ns` and can no longer be begun.
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
        self.result.planned += counted;
        self.result.unsent += counted;
        self.budget -= counted;
        if open_ns <= now_ns {
            self.result.backlog_open += before;
        }
        if close_ns <= now_ns {
            self.result.backlog_close += before + counted;
        }
    }

    /// A request that was due had no outcome until now.
    fn count_backlog(&mut self, scheduled_ns: u64, now_ns: u64) {
        let Window { open_ns, close_ns } = self.window;
        let was_open = scheduled_ns < open_ns && open_ns <= now_ns;
        let is_left = scheduled_ns < close_ns && close_ns <= now_ns;
        let is_stalled = is_left && self.stall.held_back(scheduled_ns);
        self.result.backlog_open += u64::from(was_open);
        self.result.backlog_close += u64::from(is_left);
        self.result.incidents.stalled_backlog += u64::from(is_stalled);
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
        bucket.counts.all_ok += ok;
        bucket.counts.all_faults += faults;
        if self.window.contains(now_ns) {
            bucket.counts.ok += ok;
            bucket.counts.faults += faults;
            bucket.counts.body_bytes += body_bytes;
            self.result.ok_in_window += ok;
        }
        // From the scheduled send time, or requests that had to wait for theirs would be left out (coordinated omission).
        let latency_ns = now_ns.saturating_sub(in_flight.scheduled_ns);
        // Latencies before and after the window only appear in live ticks.
        if ok > 0 && (now_ns < self.window.close_ns || self.window.close_ns <= bucket.begins_ns) {
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
        let result = &mut self.result;
        result.incidents.stalled_requests += u64::from(is_stalled);
        match outcome {
            Ok(served) => {
                result.ok += 1;
                result.body_bytes += served.body_bytes;
                result.latency.record(latency_ns);
                if self.is_open_loop {
                    let since_open_ns = in_flight.scheduled_ns - self.window.open_ns;
                    result.trend.record(since_open_ns, latency_ns);
                }
                result.service.record(served.service_ns);
            }
            Err(fault) => *result.faults.entry(fault).or_default() += 1,
        }
    }

    /// Closes the window now unless it has closed already.
    pub(crate) fn close(&mut self, now_ns: u64) {
        self.window.close_ns = self.window.close_ns.min(now_ns);
    }

    /// Gives up a request because the user ended the run: it no longer counts as planned.
    pub(crate) fn withdraw(&mut self, in_flight: InFlight) {
        self.pending -= u64::from(in_flight.counts);
        self.result.planned -= u64::from(in_flight.counts);
        self.result.withdrawn += u64::from(in_flight.counts);
        self.result.backlog_close += u64::from(in_flight != InFlight::NONE);
    }
}

/// Adds up the counts of all threads.
pub(crate) fn merge(all_counters: &[Counters], timeline: Timeline) -> LoadResult {
    let mut result = LoadResult::default();
    for counters in all_counters {
        assert_eq!(
            counters.pending, 0,
            "a thread ends when all that counts has ended"
        );
        result.add(&counters.result);
        result.window_ns = result.window_ns.max(counters.window.length_ns());
    }
    let recorders = all_counters.iter().map(|counters| &counters.recorder);
    result.timeline = timeline.end(recorders, result.window_ns);
    assert_eq!(
        result.planned,
        result.ok + result.fault_count() + result.unsent,
        "every planned request has one outcome"
    );
    result
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

    /// The result of one thread that does `work`.
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
    fn a_request_counts_by_its_scheduled_time() {
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
    fn throughput_counts_responses_within_the_window() {
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
        // Waiting when the window opens: the second and the third. When it closes: the third, and
        // three that are due in the window.
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
            // Faults of the client do not show.
            ended(12.1, 0.1, Err(Fault::ClientLate), counters);
        });
        let seconds = result.timeline.iter();
        let seen: Vec<_> = seconds.map(|s| (s.at_ms, s.ok, s.faults)).collect();
        assert_eq!(seen, [(0, 1, 0), (1000, 0, 1), (2000, 1, 0)]);
        // Each latency is in the second of its response, even if the request was due in the
        // warm-up. The last two came after the window.
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
