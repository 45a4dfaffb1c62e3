//! What one client thread counts. Nothing is shared while the load runs; threads are merged at the end.

use std::collections::BTreeMap;

use record::latency::Latency;
use record::load::{Fault, LoadResult};

use crate::schedule::Stream;
use crate::timeline::{Diary, Timeline};

/// The part of a run that counts, in nanoseconds of the engine's clock; `close_ns` is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) open_ns: u64,
    pub(crate) close_ns: u64,
}

impl Window {
    pub(crate) fn contains(self, at_ns: u64) -> bool {
        self.open_ns <= at_ns && at_ns < self.close_ns
    }

    /// Whether some of it lies between two instants.
    pub(crate) fn meets(self, from_ns: u64, to_ns: u64) -> bool {
        self.open_ns < to_ns && from_ns < self.close_ns
    }

    pub(crate) fn length_ns(self) -> u64 {
        self.close_ns.saturating_sub(self.open_ns)
    }
}

/// A request under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) planned_ns: u64,
    counts: bool,
}

impl Begun {
    pub(crate) const NONE: Self = Self {
        planned_ns: 0,
        counts: false,
    };
}

/// A right answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) body_bytes: u64,
    /// From sending to the last byte.
    pub(crate) served_ns: u64,
}

/// Counts of one thread.
///
/// A request counts when its planned instant lies in the window, however late its answer comes. The
/// timeline instead shows what happened in each second of the window.
pub(crate) struct Tally {
    pub(crate) window: Window,
    /// Requests that count and have no outcome yet.
    pub(crate) pending: u64,
    pub(crate) cpu_ns: u64,
    sessions: u64,
    repeated: u64,
    planned: u64,
    ok: u64,
    /// Right answers that came in the window, whenever they were due.
    ok_in_window: u64,
    /// Requests due and without an outcome when the window opened, and when it closed.
    backlog: (u64, u64),
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
    service: Latency,
    lateness: Latency,
    client_delay: Latency,
    speed_error_ppm: Latency,
    pub(crate) diary: Diary,
}

impl Tally {
    /// `budget` is the number of requests that may count; 0 for any number.
    pub(crate) fn new(window: Window, budget: u64, diary: Diary) -> Self {
        Self {
            window,
            pending: 0,
            cpu_ns: 0,
            sessions: 0,
            repeated: 0,
            planned: 0,
            ok: 0,
            ok_in_window: 0,
            backlog: (0, 0),
            unsent: 0,
            faults: BTreeMap::new(),
            withdrawn: 0,
            budget: if budget == 0 { u64::MAX } else { budget },
            body_bytes: 0,
            opened: 0,
            open_now: 0,
            held: 0,
            latency: Latency::new(),
            service: Latency::new(),
            lateness: Latency::new(),
            client_delay: Latency::new(),
            speed_error_ppm: Latency::new(),
            diary,
        }
    }

    /// Whether as many requests have begun as are to be counted.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget == 0
    }

    /// A request begins.
    pub(crate) fn plan(&mut self, planned_ns: u64) -> Begun {
        let counts = self.window.contains(planned_ns);
        self.planned += u64::from(counts);
        self.pending += u64::from(counts);
        self.budget -= u64::from(counts);
        Begun { planned_ns, counts }
    }

    /// A request is sent again.
    pub(crate) fn repeat(&mut self, begun: Begun) {
        self.repeated += u64::from(begun.counts);
    }

    /// A visitor has gone.
    pub(crate) fn end_session(&mut self, now_ns: u64) {
        self.sessions += u64::from(self.window.contains(now_ns));
    }

    /// A connection was opened.
    pub(crate) fn open(&mut self, now_ns: u64) {
        self.opened += u64::from(self.window.contains(now_ns));
        self.open_now += 1;
        self.held = self.held.max(self.open_now);
    }

    /// A connection was closed.
    pub(crate) fn shut(&mut self) {
        self.open_now -= 1;
    }

    /// The client began a request so much after it was due.
    pub(crate) fn late(&mut self, begun: Begun, late_ns: u64) {
        if begun.counts {
            self.lateness.record(late_ns);
        }
    }

    /// Bytes had waited so long for the client to read them.
    pub(crate) fn delayed(&mut self, now_ns: u64, delay_ns: u64) {
        if self.window.contains(now_ns) {
            self.client_delay.record(delay_ns);
        }
    }

    /// Right answers that count, so far.
    pub(crate) fn ok(&self) -> u64 {
        self.ok
    }

    /// A right answer that counts came over a slow line whose speed was off by so many millionths.
    pub(crate) fn paced(&mut self, error_ppm: u64) {
        self.speed_error_ppm.record(error_ppm);
    }

    /// A request was due and nobody began it.
    pub(crate) fn leave_unsent(&mut self, planned_ns: u64, now_ns: u64) {
        let counts = self.window.contains(planned_ns);
        self.planned += u64::from(counts);
        self.unsent += u64::from(counts);
        self.budget -= u64::from(counts);
        self.waited(planned_ns, now_ns);
    }

    /// All requests that were due before an instant, and that nobody can begin any more.
    pub(crate) fn leave_all_unsent(&mut self, stream: &mut Stream, until_ns: u64, now_ns: u64) {
        let Window { open_ns, close_ns } = self.window;
        let before = stream.skip_to(until_ns.min(open_ns));
        let counted = stream.skip_to(until_ns.min(close_ns)).min(self.budget);
        stream.skip_to(until_ns);
        self.planned += counted;
        self.unsent += counted;
        self.budget -= counted;
        if open_ns <= now_ns {
            self.backlog.0 += before;
        }
        if close_ns <= now_ns {
            self.backlog.1 += before + counted;
        }
    }

    /// A request that was due had no outcome until now.
    fn waited(&mut self, planned_ns: u64, now_ns: u64) {
        let Window { open_ns, close_ns } = self.window;
        self.backlog.0 += u64::from(planned_ns < open_ns && open_ns <= now_ns);
        self.backlog.1 += u64::from(planned_ns < close_ns && close_ns <= now_ns);
    }

    /// A request ended.
    pub(crate) fn end(&mut self, begun: Begun, now_ns: u64, outcome: Result<Served, Fault>) {
        let (ok, faults, body_bytes) = match outcome {
            Ok(served) => (1, 0, served.body_bytes),
            Err(_) => (0, 1, 0),
        };
        let page = self.diary.page(now_ns);
        page.all_ok += ok;
        page.all_faults += faults;
        if self.window.contains(now_ns) {
            page.ok += ok;
            page.faults += faults;
            page.body_bytes += body_bytes;
            self.ok_in_window += ok;
        }
        // Those of the warm-up are only shown.
        if ok > 0 && (begun.counts || now_ns < self.window.open_ns) {
            page.latency.record(now_ns.saturating_sub(begun.planned_ns));
        }
        if begun != Begun::NONE {
            self.waited(begun.planned_ns, now_ns);
        }
        if !begun.counts {
            return;
        }
        self.pending -= 1;
        match outcome {
            Ok(served) => {
                self.ok += 1;
                self.body_bytes += served.body_bytes;
                self.latency.record(now_ns.saturating_sub(begun.planned_ns));
                self.service.record(served.served_ns);
            }
            Err(fault) => *self.faults.entry(fault).or_default() += 1,
        }
    }

    /// Closes the window now if it has not closed yet.
    pub(crate) fn close(&mut self, now_ns: u64) {
        self.window.close_ns = self.window.close_ns.min(now_ns);
    }

    /// A request under way is given up because the user ended the run: it was never planned.
    pub(crate) fn withdraw(&mut self, begun: Begun) {
        self.pending -= u64::from(begun.counts);
        self.planned -= u64::from(begun.counts);
        self.withdrawn += u64::from(begun.counts);
        self.backlog.1 += u64::from(begun != Begun::NONE);
    }
}

/// Sums up the threads.
pub(crate) fn merge(tallies: &[Tally], timeline: Timeline) -> LoadResult {
    let window_ns = tallies
        .iter()
        .map(|tally| tally.window.length_ns())
        .max()
        .unwrap_or(0);
    let mut result = LoadResult {
        window_ns,
        ok_in_window: Some(tallies.iter().map(|tally| tally.ok_in_window).sum()),
        client_cpu_ns: tallies.iter().map(|tally| tally.cpu_ns).collect(),
        timeline: timeline.end(tallies.iter().map(|tally| &tally.diary), window_ns),
        ..LoadResult::default()
    };
    for tally in tallies {
        add(&mut result, tally);
    }
    let accounted = result.ok + result.fault_count() + result.unsent;
    assert_eq!(
        result.planned, accounted,
        "every planned request has one outcome"
    );
    result
}

fn add(result: &mut LoadResult, tally: &Tally) {
    assert_eq!(
        tally.pending, 0,
        "a thread ends when all that counts has ended"
    );
    result.sessions += tally.sessions;
    result.repeated += tally.repeated;
    result.planned += tally.planned;
    result.ok += tally.ok;
    result.unsent += tally.unsent;
    result.backlog_open += tally.backlog.0;
    result.backlog_close += tally.backlog.1;
    result.withdrawn += tally.withdrawn;
    result.connections_opened += tally.opened;
    result.connections_held += tally.held;
    result.body_bytes += tally.body_bytes;
    result.latency.merge(&tally.latency);
    result.service.merge(&tally.service);
    result.lateness.merge(&tally.lateness);
    result.client_delay.merge(&tally.client_delay);
    result.speed_error_ppm.merge(&tally.speed_error_ppm);
    for (fault, count) in &tally.faults {
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

    const RIGHT: Result<Served, Fault> = Ok(Served {
        body_bytes: 7,
        served_ns: 1,
    });

    #[test]
    fn seconds_of_the_window_count_and_those_around_it_do_not() {
        let counts = |at_s: u64| WINDOW.meets(at_s * SECOND_NS, (at_s + 1) * SECOND_NS);
        let seen: Vec<_> = (8..14).map(counts).collect();
        // The window ends in the middle of the twelfth second.
        assert_eq!(seen, [false, false, true, true, true, false]);
    }

    /// What a thread's requests come to.
    fn check(work: impl FnOnce(&mut Tally)) -> LoadResult {
        let (mut diaries, timeline) = timeline::begin(1, WINDOW.open_ns);
        let mut tally = Tally::new(WINDOW, 0, diaries.remove(0));
        work(&mut tally);
        merge(&[tally], timeline)
    }

    fn ended(at_s: f64, took_s: f64, outcome: Result<Served, Fault>, tally: &mut Tally) {
        let planned_ns = (at_s * 1e9) as u64;
        let begun = tally.plan(planned_ns);
        tally.end(begun, planned_ns + (took_s * 1e9) as u64, outcome);
    }

    #[test]
    fn a_request_counts_by_its_planned_instant() {
        let result = check(|tally| {
            ended(9.9, 0.2, RIGHT, tally);
            ended(10.0, 0.1, RIGHT, tally);
            ended(12.4, 5.0, Err(Fault::Reset), tally);
            ended(12.5, 0.1, RIGHT, tally);
        });
        assert_eq!((result.planned, result.ok, result.fault_count()), (2, 1, 1));
        assert_eq!(result.latency.count(), 1);
        assert_eq!(result.window_ns, 2_500_000_000);
    }

    #[test]
    fn throughput_is_of_answers_that_came_in_the_window() {
        let result = check(|tally| {
            // Due before the window: answered before, in and after it.
            for took in [0.05, 0.2, 5.0] {
                ended(9.9, took, RIGHT, tally);
            }
            // Due in the window: answered in it and after it, failed after it, never sent.
            for took in [0.1, 5.0] {
                ended(11.0, took, RIGHT, tally);
            }
            ended(11.0, 5.0, Err(Fault::FirstByteTimeout), tally);
            tally.leave_unsent(12 * SECOND_NS, 20 * SECOND_NS);
        });
        assert_eq!((result.planned, result.ok), (4, 2));
        assert_eq!(result.ok_in_window, Some(2));
        assert!((result.ok_per_s() - 2.0 / 2.5).abs() < 1e-9);
        // What waited at the opening: the second and the third; at the close: the third, and three of the window.
        assert_eq!((result.backlog_open, result.backlog_close), (2, 4));
    }

    #[test]
    fn the_timeline_shows_what_happened_when() {
        let result = check(|tally| {
            ended(9.9, 0.2, RIGHT, tally);
            ended(11.5, 0.1, Err(Fault::Reset), tally);
            ended(12.4, 0.05, RIGHT, tally);
            ended(12.4, 5.0, RIGHT, tally);
        });
        let seconds = result.timeline.iter();
        let seen: Vec<_> = seconds.map(|s| (s.at_ms, s.ok, s.faults)).collect();
        assert_eq!(seen, [(0, 1, 0), (1000, 0, 1), (2000, 1, 0)]);
        // The first answer was planned in the warm-up; the last one came after the window.
        let latencies = result.timeline.iter().map(|s| s.latency.unpack());
        let counts: Vec<_> = latencies.clone().map(|latency| latency.count()).collect();
        assert_eq!(counts, [0, 0, 2]);
        assert_eq!(counts.iter().sum::<u64>(), result.latency.count());
        assert!(latencies.map(|latency| latency.max_ns()).max() > Some(4_900_000_000));
    }

    #[test]
    fn a_run_that_is_ended_early_has_a_shorter_window() {
        let result = check(|tally| {
            ended(10.2, 0.1, RIGHT, tally);
            let begun = tally.plan(11 * SECOND_NS);
            tally.close(11 * SECOND_NS);
            tally.withdraw(begun);
        });
        assert_eq!((result.planned, result.window_ns), (1, 1_000_000_000));
        assert_eq!(result.timeline.len(), 1);
    }
}
