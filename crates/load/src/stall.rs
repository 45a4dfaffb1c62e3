//! Times at which a client thread was held up: `SIGSTOP`, a paused virtual machine, a CPU that others
//! had.
//!
//! ```text
//!  sleep(until)      until           wake(now)
//!  ----|---------------|----- stall -----|------------------------------ caught_up
//!                      requests are due  begun, as fast as the server takes them
//! ```
//! What was due in the stall is late by the client's doing. So is what comes after, by as much as
//! the stall took, until all that was due has begun: it queues behind the rest.

/// A thread that is back so late was held up. On a busy machine sleeps end some milliseconds late;
/// send delays show that by themselves.
pub(crate) const STALL_NS: u64 = 10_000_000;

/// What one thread knows of the times at which it was held up.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "all are times, and units come last"
)]
pub(crate) struct StallWatch {
    /// When the thread looks at its sockets again, if nothing holds it up.
    awake_by_ns: u64,
    /// When the first of the stalls began whose requests have not all begun.
    from_ns: u64,
    /// When the last stall began, and when it ended.
    began_ns: u64,
    until_ns: u64,
    /// How long the thread was held up since all that was due had begun.
    owed_ns: u64,
}

impl StallWatch {
    pub(crate) const NEW: Self = Self {
        awake_by_ns: u64::MAX,
        from_ns: 0,
        began_ns: 0,
        until_ns: 0,
        owed_ns: 0,
    };

    /// The thread sleeps until an instant, or until something happens before it.
    pub(crate) fn sleep(&mut self, until_ns: u64) {
        self.awake_by_ns = until_ns;
    }

    /// Whether the thread was held up and has not noted it.
    pub(crate) fn is_late(&self, now_ns: u64) -> bool {
        STALL_NS <= now_ns.saturating_sub(self.awake_by_ns)
    }

    /// The thread is awake; how long it was held up, if it was.
    pub(crate) fn wake(&mut self, now_ns: u64) -> Option<u64> {
        let is_late = self.is_late(now_ns);
        let awake_by_ns = std::mem::replace(&mut self.awake_by_ns, now_ns);
        if !is_late {
            return None;
        }
        let stall_ns = now_ns - awake_by_ns;
        if self.owed_ns == 0 {
            self.from_ns = awake_by_ns;
        }
        self.began_ns = awake_by_ns;
        self.until_ns = now_ns;
        self.owed_ns += stall_ns;
        Some(stall_ns)
    }

    /// Deadlines that have passed by this instant are over. Those that passed in a stall are not, as
    /// long as the responses that may have come meanwhile are being read.
    pub(crate) fn expired_by_ns(&self, now_ns: u64) -> u64 {
        if now_ns < self.until_ns.saturating_add(STALL_NS) {
            self.began_ns.min(now_ns)
        } else {
            now_ns
        }
    }

    /// When to look whether a deadline is over that passes at an instant.
    pub(crate) fn look_ns(&self, deadline_ns: u64) -> u64 {
        deadline_ns.max(self.until_ns.saturating_add(STALL_NS))
    }

    /// All that was due has begun.
    pub(crate) fn caught_up(&mut self) {
        self.owed_ns = 0;
    }

    /// Whether a request that ends now was due or under way in the last stall.
    pub(crate) fn touches(&self, scheduled_ns: u64) -> bool {
        scheduled_ns < self.until_ns
    }

    /// Whether a request was due in a stall, so that nobody but the client kept it waiting.
    pub(crate) fn held_back(&self, scheduled_ns: u64) -> bool {
        self.from_ns <= scheduled_ns && scheduled_ns < self.until_ns
    }

    /// Until when requests that nobody could send in time waited for the server alone, of those that
    /// were due from `scheduled_ns` to `until_ns`.
    pub(crate) fn begins_ns(&self, scheduled_ns: u64, until_ns: u64) -> u64 {
        if scheduled_ns < self.from_ns {
            until_ns.min(self.from_ns)
        } else {
            until_ns
        }
    }

    /// How late the client itself begins a request now. Its connection was free from `free_ns` on:
    /// before that the request waited for the server.
    pub(crate) fn send_delay_ns(&self, scheduled_ns: u64, free_ns: u64, now_ns: u64) -> u64 {
        let idle_ns = now_ns.saturating_sub(scheduled_ns.max(free_ns));
        let owed_ns = self.owed_ns.min(now_ns.saturating_sub(scheduled_ns));
        idle_ns.max(owed_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A thread that was to be back at 100 ms and is back at 350 ms.
    fn stalled() -> StallWatch {
        let mut watch = StallWatch::NEW;
        watch.sleep(100 * MS);
        assert_eq!(watch.wake(350 * MS), Some(250 * MS));
        watch
    }

    #[test]
    fn a_thread_that_is_back_in_time_owes_nothing() {
        let mut watch = StallWatch::NEW;
        assert_eq!(watch.wake(5 * MS), None);
        for back_ms in [40, 100, 109] {
            watch.sleep(100 * MS);
            assert_eq!(watch.wake(back_ms * MS), None, "{back_ms}");
        }
        assert_eq!(watch.send_delay_ns(50 * MS, 80 * MS, 90 * MS), 10 * MS);
    }

    #[test]
    fn a_late_thread_owes_what_it_missed_until_all_of_it_has_begun() {
        let mut watch = stalled();
        // The connection became free by a response that was read only now.
        assert_eq!(watch.send_delay_ns(120 * MS, 350 * MS, 350 * MS), 230 * MS);
        // What was due before waited for the server first, and what is due later for the rest.
        assert_eq!(watch.send_delay_ns(20 * MS, 350 * MS, 350 * MS), 250 * MS);
        assert_eq!(watch.send_delay_ns(360 * MS, 390 * MS, 390 * MS), 30 * MS);
        watch.caught_up();
        assert_eq!(watch.send_delay_ns(360 * MS, 390 * MS, 390 * MS), 0);
    }

    #[test]
    fn stalls_add_up_until_the_thread_has_caught_up() {
        let mut watch = stalled();
        watch.sleep(360 * MS);
        assert_eq!(watch.wake(460 * MS), Some(100 * MS));
        assert_eq!(watch.send_delay_ns(90 * MS, 460 * MS, 460 * MS), 350 * MS);
        assert!(watch.held_back(100 * MS) && watch.held_back(459 * MS));
        assert!(!watch.held_back(99 * MS) && !watch.held_back(460 * MS));
        assert!(watch.touches(1) && !watch.touches(460 * MS));
        assert_eq!(watch.begins_ns(90 * MS, 300 * MS), 100 * MS);
        assert_eq!(watch.begins_ns(90 * MS, 95 * MS), 95 * MS);
        assert_eq!(watch.begins_ns(470 * MS, 900 * MS), 900 * MS);
    }

    #[test]
    fn work_that_takes_too_long_counts_like_sleep() {
        let mut watch = stalled();
        assert_eq!(watch.wake(355 * MS), None);
        assert_eq!(watch.wake(400 * MS), Some(45 * MS));
    }

    #[test]
    fn a_deadline_that_passes_in_a_stall_waits_for_what_is_there_to_be_read() {
        let watch = stalled();
        assert_eq!(watch.expired_by_ns(350 * MS), 100 * MS);
        assert_eq!(watch.expired_by_ns(359 * MS), 100 * MS);
        assert_eq!(watch.expired_by_ns(360 * MS), 360 * MS);
        assert_eq!(StallWatch::NEW.expired_by_ns(77 * MS), 77 * MS);
    }
}
