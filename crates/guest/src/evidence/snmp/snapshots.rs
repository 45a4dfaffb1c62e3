//! CPU time from counters that an agent renews only every few seconds (net-snmp: 5): polls find when it does so.
//!
//! ```text
//! polls      | | | | | |            | | | | | | |
//! renewed        1         2         3         4
//! window       [-----------------------------------]
//! used            1 ------------------------> 4       first and last that were renewed between two polls
//! ```

use std::time::Duration;

/// A shorter window has no CPU time: it may contain fewer than two renewals.
pub(super) const SHORTEST_WINDOW: Duration = Duration::from_secs(10);

/// Renewals count from this long before the window opens. The load runs then already, unless the warm-up is shorter.
/// So a window of 10 s has two renewals 5 s apart, and a poll.
pub(super) const LEAD: Duration = Duration::from_millis(500);

/// How long to poll before the window closes: long enough for one renewal.
pub(super) const TAIL: Duration = Duration::from_secs(6);

/// Time between polls. 176 polls took snmpd 30 ms of CPU time.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Between polls that are farther apart, the time of a renewal is too uncertain.
const LONGEST_GAP: Duration = Duration::from_millis(500);

/// Largest relative difference between counted and elapsed time; beyond it the counters are not the CPUs' time.
const SPAN_ERROR: f64 = 0.05;

/// Ticks of CPU time in a second (`USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// Number of busy states.
const BUSY: usize = super::CPU_BUSY.len();

/// Ticks of all CPUs in each state, the busy ones first. Modulo 2^32 as in the MIB: 62 days of 8 idle CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ticks(pub(super) [u32; BUSY + super::CPU_IDLE.len()]);

impl Ticks {
    /// Busy and idle ticks since an earlier state.
    fn since(&self, earlier: &Self) -> (f64, f64) {
        let mut ticks = self.0.iter().zip(earlier.0);
        let mut sum = |count| -> f64 {
            let states = ticks.by_ref().take(count);
            states
                .map(|(now, then)| f64::from(now.wrapping_sub(then)))
                .sum()
        };
        (sum(BUSY), sum(usize::MAX))
    }
}

/// Counters that were renewed between two polls.
#[derive(Debug, Clone, Copy)]
struct Snapshot {
    earliest: Duration,
    latest: Duration,
    ticks: Ticks,
}

/// First and last renewal in a window.
#[derive(Debug)]
pub(super) struct Snapshots {
    /// Renewals count from here on.
    from: Duration,
    /// When the last poll was sent, and its answer.
    polled: Option<(Duration, Ticks)>,
    first: Option<Snapshot>,
    last: Option<Snapshot>,
}

impl Snapshots {
    pub(super) fn new(from: Duration) -> Self {
        Self {
            from,
            polled: None,
            first: None,
            last: None,
        }
    }

    /// Whether the first renewal is known.
    pub(super) fn has_first(&self) -> bool {
        self.first.is_some()
    }

    /// Adds a poll that was sent and answered at these times.
    pub(super) fn add(&mut self, asked: Duration, answered: Duration, ticks: Ticks) {
        let before = self.polled.replace((asked, ticks));
        let Some((earliest, old)) = before else {
            return;
        };
        let is_timed = earliest >= self.from && answered.saturating_sub(earliest) <= LONGEST_GAP;
        if old == ticks || !is_timed {
            return;
        }
        let snapshot = Snapshot {
            earliest,
            latest: answered,
            ticks,
        };
        self.first.get_or_insert(snapshot);
        self.last = Some(snapshot);
    }

    /// Average of busy CPUs between the first renewal and the last. An unknown number of CPUs is inferred from the
    /// elapsed time.
    pub(super) fn busy_cpus(&self, cpus: Option<u64>) -> Option<f64> {
        let (first, last) = self.first.zip(self.last)?;
        let (busy, idle) = last.ticks.since(&first.ticks);
        let ticks = busy + idle;
        let shortest = last.earliest.checked_sub(first.latest)?.as_secs_f64();
        let longest = last.latest.checked_sub(first.earliest)?.as_secs_f64();
        if ticks <= 0.0 || shortest <= 0.0 {
            return None;
        }
        let cpus = match cpus {
            Some(cpus) => cpus as f64,
            None => (ticks / TICKS_PER_S / f64::midpoint(shortest, longest)).round(),
        };
        let covered_s = ticks / TICKS_PER_S / cpus.max(1.0);
        let is_right =
            shortest * (1.0 - SPAN_ERROR) <= covered_s && covered_s <= longest * (1.0 + SPAN_ERROR);
        is_right.then_some(busy / ticks * cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system on which a load of 15 s keeps half of the CPUs busy; otherwise they are idle.
    struct System {
        cpus: f64,
        /// Uptime.
        days: f64,
        /// Time between renewals of the counters.
        renewal_s: f64,
        /// Time of the first renewal.
        phase_s: f64,
    }

    const LOAD_S: [f64; 2] = [0.0, 15.0];

    impl System {
        /// The counters at a time.
        fn ticks(&self, at: Duration) -> Ticks {
            let at_s = at.as_secs_f64();
            let renewals = ((at_s - self.phase_s) / self.renewal_s).floor();
            let now_s = (renewals * self.renewal_s + self.phase_s).min(at_s);
            let loaded_s = now_s.clamp(LOAD_S[0], LOAD_S[1]) - LOAD_S[0];
            let ticks = |seconds: f64| ((seconds * self.cpus * 100.0) as u64) as u32;
            let up_s = self.days * 86_400.0 + 100.0 + now_s;
            let mut all = Ticks::default();
            all.0[0] = ticks(loaded_s / 2.0);
            all.0[BUSY] = ticks(up_s - loaded_s / 2.0);
            all
        }

        /// The result for a window that opens after 2 s.
        fn busy_cpus(&self, window_s: u64, cpus: Option<u64>) -> Option<f64> {
            let (warmup, window) = (Duration::from_secs(2), Duration::from_secs(window_s));
            let mut snapshots = Snapshots::new(warmup.saturating_sub(LEAD));
            let mut now = warmup.saturating_sub(LEAD * 2);
            while now < warmup + window {
                let answered = now + Duration::from_millis(1);
                snapshots.add(now, answered, self.ticks(answered));
                now += POLL_INTERVAL;
            }
            snapshots.busy_cpus(cpus)
        }
    }

    fn check_half(system: &System, window_s: u64, cpus: Option<u64>) {
        let half = system.cpus / 2.0;
        let busy = system.busy_cpus(window_s, cpus).unwrap();
        let error = busy / half - 1.0;
        assert!(error.abs() < 0.01, "{busy} {half} {window_s}");
    }

    #[test]
    fn the_uptime_of_a_system_changes_nothing() {
        for days in [0.0, 20.0, 62.138, 100.0, 248.551, 497.102, 510.0] {
            for cpus in [1.0, 2.0, 8.0] {
                let system = System {
                    cpus,
                    days,
                    renewal_s: 5.0,
                    phase_s: 1.3,
                };
                check_half(&system, 12, None);
                check_half(&system, 12, Some(cpus as u64));
            }
        }
    }

    #[test]
    fn what_was_before_the_load_does_not_count_whenever_counters_are_renewed() {
        for renewal_s in [0.01, 1.0, 5.0, 5.1] {
            for tenths in 0..51_u32 {
                let system = System {
                    cpus: 4.0,
                    days: 1.0,
                    renewal_s,
                    phase_s: f64::from(tenths) / 10.0 + 0.03,
                };
                check_half(&system, 10, None);
                check_half(&system, 10, Some(4));
            }
        }
    }

    #[test]
    fn counters_that_are_not_the_cpus_time_are_not_known() {
        let system = System {
            cpus: 4.0,
            days: 1.0,
            renewal_s: 5.0,
            phase_s: 1.3,
        };
        // The counters have four CPUs' time, not three's.
        assert_eq!(system.busy_cpus(12, Some(3)), None);
        let slow = System {
            renewal_s: 30.0,
            ..system
        };
        assert_eq!(slow.busy_cpus(12, Some(4)), None);
    }

    #[test]
    fn an_agent_that_has_just_started_counts_from_its_first_renewal_on() {
        let system = System {
            cpus: 2.0,
            days: 1.0,
            renewal_s: 5.0,
            phase_s: 0.0,
        };
        let mut snapshots = Snapshots::new(Duration::ZERO);
        for tenths in 0..120 {
            let at = Duration::from_millis(tenths * 100);
            let ticks = if tenths >= 50 {
                system.ticks(at)
            } else {
                Ticks::default()
            };
            snapshots.add(at, at, ticks);
        }
        let busy = snapshots.busy_cpus(Some(2)).unwrap();
        assert!((busy - 1.0).abs() < 0.01, "{busy}");
    }

    #[test]
    fn a_renewal_between_polls_that_lie_far_apart_has_no_time() {
        let mut snapshots = Snapshots::new(Duration::ZERO);
        let mut add = |at_ms, value| {
            let at = Duration::from_millis(at_ms);
            let mut ticks = Ticks::default();
            ticks.0[0] = value;
            snapshots.add(at, at, ticks);
            snapshots.has_first()
        };
        assert!(!add(0, 1));
        assert!(!add(4000, 400));
        assert!(!add(4100, 400));
        assert!(add(4200, 500));
    }
}
