//! A timing wheel: one alarm per slot, constant cost, nothing allocated after the start.
//!
//! Alarms are moved far more often than they ring - every request moves one, and only a time-out lets it
//! ring - so moving one to a later instant only notes the instant. The slot stays where it hangs, and is
//! hung anew when the wheel comes by. An alarm never rings early, and at most one tick late.

/// Length of a tick: 2^20 ns, about a millisecond.
const TICK_SHIFT: u32 = 20;
/// Ticks of one turn, about 4.3 s. Alarms further away pass by once per turn.
const TURN: u64 = 4096;
/// An instant that never comes.
const NEVER: u64 = u64::MAX;
/// End of a chain.
const NONE: u32 = u32::MAX;

/// Alarms of a fixed number of slots.
pub(crate) struct Wheel {
    spokes: Vec<u32>,
    alarms: Vec<Alarm>,
    /// The tick that is looked at next; all ticks before it are empty.
    tick: u64,
    /// No slot hangs at an earlier tick.
    earliest: u64,
}

#[derive(Clone, Copy)]
struct Alarm {
    at_ns: u64,
    hangs_at: u64,
    next: u32,
    prev: u32,
}

impl Wheel {
    /// A wheel for slots `0..slots`, none of them set.
    pub(crate) fn new(slots: usize, now_ns: u64) -> Self {
        let alarm = Alarm {
            at_ns: NEVER,
            hangs_at: NEVER,
            next: NONE,
            prev: NONE,
        };
        Self {
            spokes: vec![NONE; TURN as usize],
            alarms: vec![alarm; slots],
            tick: now_ns >> TICK_SHIFT,
            earliest: NEVER,
        }
    }

    /// Sets the slot's alarm, or moves it.
    pub(crate) fn set(&mut self, slot: u32, at_ns: u64) {
        let alarm = &mut self.alarms[slot as usize];
        alarm.at_ns = at_ns;
        let tick = tick_after(at_ns);
        if alarm.hangs_at == NEVER {
            self.hang(slot, tick);
        } else if tick < alarm.hangs_at {
            self.unhang(slot);
            self.hang(slot, tick);
        }
    }

    /// Takes the slot's alarm back.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.alarms[slot as usize].at_ns = NEVER;
    }

    /// A slot whose alarm is due; its alarm is then clear.
    pub(crate) fn ring(&mut self, now_ns: u64) -> Option<u32> {
        let now_tick = now_ns >> TICK_SHIFT;
        while self.earliest <= now_tick {
            self.tick = self.tick.max(self.earliest);
            let slot = self.spokes[(self.tick % TURN) as usize];
            if slot == NONE {
                self.advance();
                continue;
            }
            self.unhang(slot);
            let at_ns = self.alarms[slot as usize].at_ns;
            if at_ns <= now_ns {
                self.clear(slot);
                return Some(slot);
            }
            if at_ns != NEVER {
                self.hang(slot, tick_after(at_ns));
            }
        }
        None
    }

    /// An instant before which no alarm rings.
    pub(crate) fn next_ns(&self) -> u64 {
        if self.earliest == NEVER {
            NEVER
        } else {
            self.earliest << TICK_SHIFT
        }
    }

    /// The spoke at `tick` is empty: finds the next one that is not.
    fn advance(&mut self) {
        let next = (self.tick + 1..self.tick + TURN)
            .find(|tick| self.spokes[(tick % TURN) as usize] != NONE);
        self.tick += 1;
        self.earliest = next.unwrap_or(NEVER);
    }

    fn hang(&mut self, slot: u32, tick: u64) {
        let tick = tick.clamp(self.tick, self.tick + TURN - 1);
        let first = &mut self.spokes[(tick % TURN) as usize];
        let second = std::mem::replace(first, slot);
        let alarm = &mut self.alarms[slot as usize];
        (alarm.hangs_at, alarm.prev, alarm.next) = (tick, NONE, second);
        if second != NONE {
            self.alarms[second as usize].prev = slot;
        }
        self.earliest = self.earliest.min(tick);
    }

    fn unhang(&mut self, slot: u32) {
        let Alarm {
            hangs_at,
            next,
            prev,
            ..
        } = self.alarms[slot as usize];
        if prev == NONE {
            self.spokes[(hangs_at % TURN) as usize] = next;
        } else {
            self.alarms[prev as usize].next = next;
        }
        if next != NONE {
            self.alarms[next as usize].prev = prev;
        }
        self.alarms[slot as usize].hangs_at = NEVER;
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

    /// Looks at the wheel every `step` and returns who rang when, in whole milliseconds after the start.
    fn watch(wheel: &mut Wheel, step_ms: u64, until_ms: u64) -> Vec<(u64, u32)> {
        let mut rung = Vec::new();
        for at_ms in (0..=until_ms).step_by(step_ms as usize) {
            while let Some(slot) = wheel.ring(START + at_ms * MS) {
                rung.push((at_ms, slot));
            }
        }
        rung
    }

    #[test]
    fn alarms_ring_in_time_and_never_early() {
        let mut wheel = Wheel::new(4, START);
        wheel.set(0, START + 30 * MS);
        wheel.set(1, START + 10 * MS);
        wheel.set(2, START + 20_000 * MS);
        for (at_ms, slot) in watch(&mut wheel, 1, 25_000) {
            let due_ms = [30, 10, 20_000][slot as usize];
            assert!(
                due_ms <= at_ms && at_ms <= due_ms + 2,
                "{slot} rang at {at_ms} ms"
            );
        }
        assert_eq!(wheel.next_ns(), NEVER);
    }

    #[test]
    fn a_moved_alarm_rings_once_at_its_last_instant() {
        let mut wheel = Wheel::new(1, START);
        for request in 0..1000 {
            wheel.set(0, START + (request + 50) * MS);
        }
        let rung = watch(&mut wheel, 1, 2000);
        assert!(matches!(rung[..], [(1049..=1051, 0)]), "{rung:?}");
    }

    #[test]
    fn an_alarm_can_be_moved_forward() {
        let mut wheel = Wheel::new(2, START);
        wheel.set(0, START + 9000 * MS);
        wheel.set(1, START + 9000 * MS);
        wheel.set(0, START + 5 * MS);
        let rung = watch(&mut wheel, 1, 10_000);
        assert!(
            matches!(rung[..], [(5..=7, 0), (9000..=9002, 1)]),
            "{rung:?}"
        );
    }

    #[test]
    fn a_cleared_alarm_is_silent() {
        let mut wheel = Wheel::new(3, START);
        (0..3).for_each(|slot| wheel.set(slot, START + 3 * MS));
        wheel.clear(1);
        let rung = watch(&mut wheel, 1, 100);
        let slots: Vec<u32> = rung.iter().map(|(_, slot)| *slot).collect();
        assert_eq!(slots.len(), 2, "{rung:?}");
        assert!(!slots.contains(&1), "{rung:?}");
    }

    #[test]
    fn a_long_sleep_loses_nothing() {
        let mut wheel = Wheel::new(100, START);
        (0..100).for_each(|slot| wheel.set(slot, START + u64::from(slot) * 700 * MS));
        let rung = watch(&mut wheel, 35_000, 105_000);
        assert_eq!(rung.len(), 100);
        assert_eq!(
            rung.iter().filter(|(at_ms, _)| *at_ms <= 35_000).count(),
            51
        );
    }
}
