//! Reports the seconds of a drive without clients of `load`.

use std::time::{Duration, Instant};

use base::latency::Packed;
use record::load::Tick;

use crate::Watcher;

/// Reports each second to the watcher.
pub(crate) struct Ticker<'w> {
    watcher: &'w mut dyn Watcher,
    began: Instant,
    second: u32,
    done: u64,
    warmup: Duration,
}

impl<'w> Ticker<'w> {
    /// Starts the drive. Its work counts after the warm-up.
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

    /// Adds `more` operations, and reports if a second has passed.
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
