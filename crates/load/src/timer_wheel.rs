//! A timing wheel: one timer per slot, constant cost, no allocation after the start.
//!
//! Every request moves a timer, but timers expire only at time-outs. So moving a timer to a later
//! instant only stores the instant. The slot stays in its bucket and is moved when the wheel
//! reaches that bucket. A timer never expires early, and at most one tick late.

/// Length of a tick: 2^20 ns, about a millisecond.
const TICK_SHIFT: u32 = 20;
/// Ticks of one turn, about 4.3 s. Timers further away are put back once per turn.
const TURN: u64 = 4096;
/// An instant that is never reached.
const NEVER: u64 = u64::MAX;
/// End of a linked list.
const NONE: u32 = u32::MAX;

/// Timers of a fixed number of slots.
pub(crate) struct TimerWheel {
    /// First slot of each tick's list.
    buckets: Vec<u32>,
    timers: Vec<Timer>,
    /// The next tick to handle; the buckets of all earlier ticks are empty.
    tick: u64,
    /// A lower bound of the ticks that slots are in.
    earliest: u64,
}

#[derive(Clone, Copy)]
struct Timer {
    at_ns: u64,
    in_tick: u64,
    next: u32,
    prev: u32,
}

impl TimerWheel {
    /// A wheel for slots `0..slots`, without any timer set.
    pub(crate) fn new(slots: usize, now_ns: u64) -> Self {
        let timer = Timer {
            at_ns: NEVER,
            in_tick: NEVER,
            next: NONE,
            prev: NONE,
        };
        Self {
            buckets: vec![NONE; TURN as usize],
            timers: vec![timer; slots],
            tick: now_ns >> TICK_SHIFT,
            earliest: NEVER,
        }
    }

    /// Sets the slot's timer, or moves it.
    pub(crate) fn set(&mut self, slot: u32, at_ns: u64) {
        let timer = &mut self.timers[slot as usize];
        timer.at_ns = at_ns;
        let tick = tick_after(at_ns);
        if timer.in_tick == NEVER {
            self.link(slot, tick);
        } else if tick < timer.in_tick {
            self.unlink(slot);
            self.link(slot, tick);
        }
    }

    /// Cancels the slot's timer.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.timers[slot as usize].at_ns = NEVER;
    }

    /// Returns a slot whose timer is due and clears the timer.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Option<u32> {
        let now_tick = now_ns >> TICK_SHIFT;
        while self.earliest <= now_tick {
            self.tick = self.tick.max(self.earliest);
            let slot = self.buckets[(self.tick % TURN) as usize];
            if slot == NONE {
                self.advance();
                continue;
            }
            self.unlink(slot);
            let at_ns = self.timers[slot as usize].at_ns;
            if at_ns <= now_ns {
                self.clear(slot);
                return Some(slot);
            }
            if at_ns != NEVER {
                self.link(slot, tick_after(at_ns));
            }
        }
        None
    }

    /// An instant before which no timer expires.
    pub(crate) fn next_ns(&self) -> u64 {
        if self.earliest == NEVER {
            NEVER
        } else {
            self.earliest << TICK_SHIFT
        }
    }

    /// Moves on from an empty bucket at `tick` and finds the next one that is not empty.
    fn advance(&mut self) {
        let next = (self.tick + 1..self.tick + TURN)
            .find(|tick| self.buckets[(tick % TURN) as usize] != NONE);
        self.tick += 1;
        self.earliest = next.unwrap_or(NEVER);
    }

    fn link(&mut self, slot: u32, tick: u64) {
        let tick = tick.clamp(self.tick, self.tick + TURN - 1);
        let first = &mut self.buckets[(tick % TURN) as usize];
        let second = std::mem::replace(first, slot);
        let timer = &mut self.timers[slot as usize];
        (timer.in_tick, timer.prev, timer.next) = (tick, NONE, second);
        if second != NONE {
            self.timers[second as usize].prev = slot;
        }
        self.earliest = self.earliest.min(tick);
    }

    fn unlink(&mut self, slot: u32) {
        let Timer {
            in_tick,
            next,
            prev,
            ..
        } = self.timers[slot as usize];
        if prev == NONE {
            self.buckets[(in_tick % TURN) as usize] = next;
        } else {
            self.timers[prev as usize].next = next;
        }
        if next != NONE {
            self.timers[next as usize].prev = prev;
        }
        self.timers[slot as usize].in_tick = NEVER;
    }
}

/// The first tick that begins at or after the instant.
fn tick_after(at_ns: u64) -> u64 {
    at_ns.div_ceil(1 << TICK_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const START: u64 = 77_777_777_777;

    /// Checks the wheel every `step_ms` and returns which slot expired when, in whole milliseconds
    /// after the start.
    fn watch(wheel: &mut TimerWheel, step_ms: u64, until_ms: u64) -> Vec<(u64, u32)> {
        let mut expired = Vec::new();
        for at_ms in (0..=until_ms).step_by(step_ms as usize) {
            while let Some(slot) = wheel.expire(START + at_ms * MS) {
                expired.push((at_ms, slot));
            }
        }
        expired
    }

    #[test]
    fn timers_expire_in_time_and_never_early() {
        let mut wheel = TimerWheel::new(4, START);
        wheel.set(0, START + 30 * MS);
        wheel.set(1, START + 10 * MS);
        wheel.set(2, START + 20_000 * MS);
        for (at_ms, slot) in watch(&mut wheel, 1, 25_000) {
            let due_ms = [30, 10, 20_000][slot as usize];
            assert!(
                due_ms <= at_ms && at_ms <= due_ms + 2,
                "{slot} expired at {at_ms} ms"
            );
        }
        assert_eq!(wheel.next_ns(), NEVER);
    }

    #[test]
    fn a_moved_timer_expires_once_at_its_last_instant() {
        let mut wheel = TimerWheel::new(1, START);
        for request in 0..1000 {
            wheel.set(0, START + (request + 50) * MS);
        }
        let expired = watch(&mut wheel, 1, 2000);
        assert!(matches!(expired[..], [(1049..=1051, 0)]), "{expired:?}");
    }

    #[test]
    fn a_timer_can_be_moved_forward() {
        let mut wheel = TimerWheel::new(2, START);
        wheel.set(0, START + 9000 * MS);
        wheel.set(1, START + 9000 * MS);
        wheel.set(0, START + 5 * MS);
        let expired = watch(&mut wheel, 1, 10_000);
        assert!(
            matches!(expired[..], [(5..=7, 0), (9000..=9002, 1)]),
            "{expired:?}"
        );
    }

    #[test]
    fn a_cleared_timer_does_not_expire() {
        let mut wheel = TimerWheel::new(3, START);
        (0..3).for_each(|slot| wheel.set(slot, START + 3 * MS));
        wheel.clear(1);
        let expired = watch(&mut wheel, 1, 100);
        let slots: Vec<u32> = expired.iter().map(|(_, slot)| *slot).collect();
        assert_eq!(slots.len(), 2, "{expired:?}");
        assert!(!slots.contains(&1), "{expired:?}");
    }

    #[test]
    fn a_long_sleep_loses_no_timer() {
        let mut wheel = TimerWheel::new(100, START);
        (0..100).for_each(|slot| wheel.set(slot, START + u64::from(slot) * 700 * MS));
        let expired = watch(&mut wheel, 35_000, 105_000);
        assert_eq!(expired.len(), 100);
        assert_eq!(
            expired.iter().filter(|(at_ms, _)| *at_ms <= 35_000).count(),
            51
        );
    }
}
