//! What one client thread counts. Nothing is shared while the load runs; threads are merged at the end.

use std::collections::BTreeMap;

use record::latency::Latency;
use record::load::{Fault, LoadResult, Second};

const SECOND_NS: u64 = 1_000_000_000;

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

/// Counts of one thread.
///
/// A request counts when its planned instant lies in the window, however late its answer comes. The
/// timeline instead shows what happened in each second of the window.
pub(crate) struct Tally {
    pub(crate) window: Window,
    /// Right answers and faults so far, warm-up included.
    pub(crate) all_ok: u64,
    pub(crate) all_faults: u64,
    /// Requests that count and have no outcome yet.
    pub(crate) pending: u64,
    pub(crate) cpu_ns: u64,
    planned: u64,
    ok: u64,
    unsent: u64,
    faults: BTreeMap<Fault, u64>,
    body_bytes: u64,
    opened: u64,
    latency: Latency,
    timeline: Vec<Second>,
}

impl Tally {
    pub(crate) fn new(window: Window) -> Self {
        let seconds = window.length_ns().div_ceil(SECOND_NS);
        let second = |index| Second {
            at_ms: index * 1000,
            ..Second::default()
        };
        Self {
            window,
            all_ok: 0,
            all_faults: 0,
            pending: 0,
            cpu_ns: 0,
            planned: 0,
            ok: 0,
            unsent: 0,
            faults: BTreeMap::new(),
            body_bytes: 0,
            opened: 0,
            latency: Latency::new(),
            timeline: (0..seconds).map(second).collect(),
        }
    }

    /// A request begins.
    pub(crate) fn plan(&mut self, planned_ns: u64) -> Begun {
        let counts = self.window.contains(planned_ns);
        self.planned += u64::from(counts);
        self.pending += u64::from(counts);
        Begun { planned_ns, counts }
    }

    /// A connection was opened.
    pub(crate) fn open(&mut self, now_ns: u64) {
        self.opened += u64::from(self.window.contains(now_ns));
    }

    /// A request ended. `outcome` is its body's length in bytes, or what went wrong.
    pub(crate) fn end(&mut self, begun: Begun, now_ns: u64, outcome: Result<u64, Fault>) {
        let (ok, faults, body_bytes) = match outcome {
            Ok(body_bytes) => (1, 0, body_bytes),
            Err(_) => (0, 1, 0),
        };
        self.all_ok += ok;
        self.all_faults += faults;
        if let Some(second) = self.second(now_ns) {
            second.ok += ok;
            second.faults += faults;
            second.body_bytes += body_bytes;
        }
        if !begun.counts {
            return;
        }
        self.pending -= 1;
        match outcome {
            Ok(body_bytes) => {
                self.ok += 1;
                self.body_bytes += body_bytes;
                self.latency.record(now_ns.saturating_sub(begun.planned_ns));
            }
            Err(fault) => *self.faults.entry(fault).or_default() += 1,
        }
    }

    /// Closes the window now if it has not closed yet.
    pub(crate) fn close(&mut self, now_ns: u64) {
        self.window.close_ns = self.window.close_ns.min(now_ns);
        let seconds = self.window.length_ns().div_ceil(SECOND_NS);
        self.timeline.truncate(seconds as usize);
    }

    /// A request under way is given up because the user ended the run: it was never planned.
    pub(crate) fn withdraw(&mut self, begun: Begun) {
        self.pending -= u64::from(begun.counts);
        self.planned -= u64::from(begun.counts);
    }

    fn second(&mut self, now_ns: u64) -> Option<&mut Second> {
        if !self.window.contains(now_ns) {
            return None;
        }
        let index = (now_ns - self.window.open_ns) / SECOND_NS;
        self.timeline.get_mut(index as usize)
    }
}

/// Sums up the threads.
pub(crate) fn merge(tallies: &[Tally], connections: u32, engine: &str) -> LoadResult {
    let window_ns = tallies.iter().map(|tally| tally.window.length_ns()).max();
    let mut result = LoadResult {
        window_ns: window_ns.unwrap_or(0),
        connections_asked: connections.into(),
        client_cpu_ns: tallies.iter().map(|tally| tally.cpu_ns).collect(),
        engine: engine.into(),
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
    result.planned += tally.planned;
    result.ok += tally.ok;
    result.unsent += tally.unsent;
    result.connections_opened += tally.opened;
    result.body_bytes += tally.body_bytes;
    result.latency.merge(&tally.latency);
    for (fault, count) in &tally.faults {
        *result.faults.entry(*fault).or_default() += count;
    }
    for (index, second) in tally.timeline.iter().enumerate() {
        match result.timeline.get_mut(index) {
            Some(sum) => {
                sum.ok += second.ok;
                sum.faults += second.faults;
                sum.body_bytes += second.body_bytes;
            }
            None => result.timeline.push(second.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        open_ns: 10 * SECOND_NS,
        close_ns: 12 * SECOND_NS + SECOND_NS / 2,
    };

    fn ended(at_s: f64, took_s: f64, outcome: Result<u64, Fault>, tally: &mut Tally) {
        let planned_ns = (at_s * 1e9) as u64;
        let begun = tally.plan(planned_ns);
        tally.end(begun, planned_ns + (took_s * 1e9) as u64, outcome);
    }

    #[test]
    fn a_request_counts_by_its_planned_instant() {
        let mut tally = Tally::new(WINDOW);
        ended(9.9, 0.2, Ok(7), &mut tally);
        ended(10.0, 0.1, Ok(7), &mut tally);
        ended(12.4, 5.0, Err(Fault::Reset), &mut tally);
        ended(12.5, 0.1, Ok(7), &mut tally);
        let result = merge(&[tally], 1, "none");
        assert_eq!((result.planned, result.ok, result.fault_count()), (2, 1, 1));
        assert_eq!(result.latency.count(), 1);
        assert_eq!(result.window_ns, 2_500_000_000);
    }

    #[test]
    fn the_timeline_shows_what_happened_when() {
        let mut tally = Tally::new(WINDOW);
        ended(9.9, 0.2, Ok(7), &mut tally);
        ended(11.5, 0.1, Err(Fault::Reset), &mut tally);
        ended(12.4, 0.05, Ok(7), &mut tally);
        let seconds = merge(&[tally], 1, "none").timeline;
        let seen: Vec<_> = seconds.iter().map(|s| (s.at_ms, s.ok, s.faults)).collect();
        assert_eq!(seen, [(0, 1, 0), (1000, 0, 1), (2000, 1, 0)]);
    }

    #[test]
    fn a_run_that_is_ended_early_has_a_shorter_window() {
        let mut tally = Tally::new(WINDOW);
        ended(10.2, 0.1, Ok(7), &mut tally);
        let begun = tally.plan(11 * SECOND_NS);
        tally.close(11 * SECOND_NS);
        tally.withdraw(begun);
        let result = merge(&[tally], 1, "none");
        assert_eq!((result.planned, result.window_ns), (1, 1_000_000_000));
        assert_eq!(result.timeline.len(), 1);
    }
}
