//! Makes objects one after the other, measures their cost, and records why there are no more.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use record::curve::Point;

use crate::ticker::Ticker;
use crate::{Watcher, Wrong, check_stop};

/// Number of points of a curve.
const POINTS: u64 = 10;

/// Result for one kind of object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grown {
    pub(super) kind: &'static str,
    pub(super) unit: &'static str,
    pub(super) reached: f64,
    pub(super) wanted: f64,
    /// The error of the first object that the kernel refused.
    pub(super) refused: Option<String>,
    /// Mean time per object in microseconds, by the number of objects.
    pub(super) points: Vec<Point>,
    /// Name, unit and value of each cost per object.
    pub(super) costs: Vec<(&'static str, &'static str, f64)>,
    pub(super) facts: Vec<(&'static str, String)>,
}

impl Grown {
    /// Reached share of the wanted number.
    pub(super) fn share(&self) -> f64 {
        (self.reached / self.wanted).min(1.0)
    }
}

/// Makes objects within a time limit.
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

    /// Makes objects until their number is reached or the kernel refuses one.
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

    /// Counts `count` more objects, and goes on unless the trial has to end.
    ///
    /// # Errors
    /// The time limit has passed, or the host has stopped the trial.
    pub(super) fn go_on(&mut self, count: u64) -> Result<()> {
        self.ticker.tick(count);
        check_stop(self.stop)?;
        if self.began.elapsed() > self.limit {
            let limit = base::input::units::show_duration(self.limit);
            return Err(Wrong(format!("the limits were not reached in {limit}")).into());
        }
        Ok(())
    }
}

/// Fails if some objects do not work.
pub(super) fn all_work(grown: &Grown, working: u64) -> Result<()> {
    // Both are whole numbers.
    if (working as f64 - grown.reached).abs() < 0.5 {
        return Ok(());
    }
    let what = format!("{} that work: {working} of {}", grown.kind, grown.reached);
    Err(Wrong(what).into())
}

/// Available memory in bytes.
fn free_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("no MemAvailable in /proc/meminfo")? << 10)
}
