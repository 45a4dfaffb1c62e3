//! Things made one after the other: how many there are, what the last of them cost, and why there are no more.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use record::curve::Point;

use crate::ticker::Ticker;
use crate::{Watcher, Wrong};

/// Points of a curve.
const POINTS: u64 = 10;

/// What came of one kind of thing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grown {
    pub(super) kind: &'static str,
    pub(super) unit: &'static str,
    pub(super) reached: f64,
    pub(super) wanted: f64,
    /// What the kernel said to the first that it refused.
    pub(super) refused: Option<String>,
    /// Mean time of each, in microseconds, against how many there were.
    pub(super) points: Vec<Point>,
    /// Name, unit and value of what each costs.
    pub(super) costs: Vec<(&'static str, &'static str, f64)>,
    pub(super) facts: Vec<(&'static str, String)>,
}

impl Grown {
    /// What was reached of what was wanted.
    pub(super) fn share(&self) -> f64 {
        (self.reached / self.wanted).min(1.0)
    }
}

/// Watches things grow in number, within a limit of time.
pub(super) struct Growth<'g> {
    ticker: Ticker<'g>,
    stop: &'g AtomicBool,
    began: Instant,
    limit: Duration,
}

impl<'g> Growth<'g> {
    pub(super) fn begin(
        watcher: &'g mut dyn Watcher,
        limit: Duration,
        stop: &'g AtomicBool,
    ) -> Self {
        Self {
            ticker: Ticker::begin(watcher, Duration::ZERO),
            stop,
            began: Instant::now(),
            limit,
        }
    }

    /// Makes things until there are as many as are wanted, or the kernel refuses one.
    pub(super) fn grow(
        &mut self,
        kind: &'static str,
        wanted: u64,
        make: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Grown> {
        let free_before = free_bytes()?;
        let (mut count, mut refused, mut points) = (0, None, Vec::new());
        let step = wanted.div_ceil(POINTS);
        let (mut step_began, mut step_from) = (Instant::now(), 0);
        while count < wanted {
            if let Err(why) = make(count) {
                refused = Some(format!("{why:#}"));
                break;
            }
            count += 1;
            self.go_on(1)?;
            if count % step == 0 || count == wanted {
                let took = step_began.elapsed().as_secs_f64() * 1e6;
                let value = took / (count - step_from) as f64;
                points.push(Point {
                    at: count as f64,
                    value,
                });
                (step_began, step_from) = (Instant::now(), count);
            }
        }
        let taken = free_before.saturating_sub(free_bytes()?);
        let mut costs = Vec::new();
        if let Some(last) = points.last() {
            costs.push(("time", "us", last.value));
        }
        if 0 < count {
            let kib = taken as f64 / 1024.0 / count as f64;
            costs.push(("memory", "KiB", kib));
        }
        Ok(Grown {
            kind,
            unit: kind,
            reached: count as f64,
            wanted: wanted as f64,
            refused,
            points,
            costs,
            facts: Vec::new(),
        })
    }

    /// So much more was done; an error where there is no time for more.
    pub(super) fn go_on(&mut self, more: u64) -> Result<()> {
        self.ticker.tick(more);
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped by the host");
        }
        if self.began.elapsed() > self.limit {
            let limit = base::input::units::show_duration(self.limit);
            return Err(Wrong(format!("the limits were not reached in {limit}")).into());
        }
        Ok(())
    }
}

/// Fewer that work than there are: what was counted does not hold.
pub(super) fn all_work(grown: &Grown, working: u64) -> Result<()> {
    // Both are whole numbers.
    if (working as f64 - grown.reached).abs() < 0.5 {
        return Ok(());
    }
    let what = format!("{} that work: {working} of {}", grown.kind, grown.reached);
    Err(Wrong(what).into())
}

/// Memory that could be had, in bytes.
fn free_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("no MemAvailable in /proc/meminfo")? << 10)
}
