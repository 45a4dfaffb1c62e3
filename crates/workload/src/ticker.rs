//! The seconds of a drive that has no clients of `load`'s to count them.

use std::time::{Duration, Instant};

use record::latency::Packed;
use record::load::Tick;

use crate::Watcher;

/// Tells the watcher of each second that has passed.
pub(crate) struct Ticker<'w> {
    watcher: &'w mut dyn Watcher,
    began: Instant,
    second: u32,
    done: u64,
    warmup: Duration,
}

impl<'w> Ticker<'w> {
    /// The drive begins now; what it does counts when the warm-up is over.
    pub(crate) fn begin(watcher: &'w mut dyn Watcher, warmup: Duration) -> Self {
        watcher.begins();
        Self {
            watcher,
            began: Instant::now(),
            second: 0,
            done: 0,
            warmup,
        }
    }

    /// So much more has been done; tells the watcher if a second has passed.
    pub(crate) fn tick(&mut self, more: u64) {
        self.done += more;
        let elapsed = self.began.elapsed();
        let second = elapsed.as_secs() as u32;
        if second > self.second {
            self.second = second;
            self.watcher.ticks(Tick {
                second,
                ok: self.done,
                faults: 0,
                latency: Packed::default(),
                counting: elapsed >= self.warmup,
                ended: Vec::new(),
            });
        }
    }
}
