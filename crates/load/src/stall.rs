//! Stalls of a client thread, as by `SIGSTOP`, a paused virtual machine or a busy CPU.
//!
//! ```text
//!  sleep(until)      until           wake(now)
//!  ----|---------------|----- stall -----|------------------------------ caught_up
//!                      requests are due  begun, as fast as the server takes them
//! ```
//! Requests that were due during the stall are late because of the client. So are later ones, by
//! the length of the stall, until all due requests have begun, because they queue behind the rest.

/// Shortest delay that counts as a stall. On a busy machine sleeps end some milliseconds late,
/// which the send delay shows.
pub(crate) const STALL_NS: u64 = 10_000_000;

/// Detects the stalls of one thread.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_field_names,
    reason = "all are times, and units come last"
)]
pub(crate) struct StallWatch {
    /// When the thread should be awake again.
    awake_by_ns: u64,
    /// Start of the first stall whose requests have not all begun.
    from_ns: u64,
    /// Start of the last stall.
    began_ns: u64,
    /// End of the last stall.
    until_ns: u64,
    /// Sum of the stalls since the thread last caught up.
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

    /// The thread is about to sleep until `until_ns` at the latest.
    pub(crate) fn sleep(&mut self, until_ns: u64) {
        self.awake_by_ns = until_ns;
    }

    /// Whether a stall has ended that `wake` has not recorded yet.
    pub(crate) fn is_late(&self, now_ns: u64) -> bool {
        STALL_NS <= now_ns.saturating_sub(self.awake_by_ns)
    }

    /// The thread is awake. Returns the length of the stall, if there was one.
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

    /// Deadlines up to the returned instant have expired. Shortly after a stall, deadlines within
    /// it have not: responses that came meanwhile are still being read.
    pub(crate) fn expired_by_ns(&self, now_ns: u64) -> u64 {
        if now_ns < self.until_ns.saturating_add(STALL_NS) {
            self.began_ns.min(now_ns)
        } else {
            now_ns
        }
    }

    /// When to check whether a deadline has expired.
    pub(crate) fn check_ns(&self, deadline_ns: u64) -> u64 {
        deadline_ns.max(self.until_ns.saturating_add(STALL_NS))
    }

    /// All due requests have begun.
    pub(crate) fn caught_up(&mut self) {
        self.owed_ns = 0;
    }

    /// Whether a request that ends now was due or under way during the last stall.
    pub(crate) fn touches(&self, scheduled_ns: u64) -> bool {
        scheduled_ns < self.until_ns
    }

    /// Whether a request was due during a stall, so that only the client kept it waiting.
    pub(crate) fn held_back(&self, scheduled_ns: u64) -> bool {
        self.from_ns <= scheduled_ns && scheduled_ns < self.until_ns
    }

    /// Of unsent requests that were due from `scheduled_ns` to `until_ns`: the end of those that
    /// waited only for the server.
    pub(crate) fn server_wait_end_ns(&self, scheduled_ns: u64, until_ns: u64) -> u64 {
        if scheduled_ns < self.from_ns {
            until_ns.min(self.from_ns)
        } else {
            until_ns
        }
    }

    /// Send delay of a request that begins now. Until `free_ns`, when its connection became free,
    /// it waited for the server.
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

    /// A thread that should wake at 100 ms and wakes at 350 ms.
    fn stalled() -> StallWatch {
        let mut watch = StallWatch::NEW;
        watch.sleep(100 * MS);
        assert_eq!(watch.wake(350 * MS), Some(250 * MS));
        watch
    }

    #[test]
    fn a_thread_that_wakes_in_time_has_no_stall() {
        let mut watch = StallWatch::NEW;
        assert_eq!(watch.wake(5 * MS), None);
        for back_ms in [40, 100, 109] {
            watch.sleep(100 * MS);
            assert_eq!(watch.wake(back_ms * MS), None, "{back_ms}");
        }
        assert_eq!(watch.send_delay_ns(50 * MS, 80 * MS, 90 * MS), 10 * MS);
    }

    #[test]
    fn a_stall_delays_requests_until_the_thread_has_caught_up() {
        let mut watch = stalled();
        // The connection became free with a response that was read only now.
        assert_eq!(watch.send_delay_ns(120 * MS, 350 * MS, 350 * MS), 230 * MS);
        // An earlier request waited for the server first; a later one queues behind the rest.
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
        assert_eq!(watch.server_wait_end_ns(90 * MS, 300 * MS), 100 * MS);
        assert_eq!(watch.server_wait_end_ns(90 * MS, 95 * MS), 95 * MS);
        assert_eq!(watch.server_wait_end_ns(470 * MS, 900 * MS), 900 * MS);
    }

    #[test]
    fn work_that_takes_too_long_counts_like_sleep() {
        let mut watch = stalled();
        assert_eq!(watch.wake(355 * MS), None);
        assert_eq!(watch.wake(400 * MS), Some(45 * MS));
    }

    #[test]
    fn deadlines_within_a_stall_expire_after_waiting_responses_are_read() {
        let watch = stalled();
        assert_eq!(watch.expired_by_ns(350 * MS), 100 * MS);
        assert_eq!(watch.expired_by_ns(359 * MS), 100 * MS);
        assert_eq!(watch.expired_by_ns(360 * MS), 360 * MS);
        assert_eq!(StallWatch::NEW.expired_by_ns(77 * MS), 77 * MS);
    }
}
