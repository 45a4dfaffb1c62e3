//! `threads`: the time to create and end many threads, few at a time.
//!
//! After the figures published with NPTL: 100,000 threads, at most 50 at once, in 2.3 s on two
//! Pentium II of 450 MHz.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plan::Traits;
use plan::fields::Fields;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::figures::secondary;
use crate::options;
use crate::overview::{Key, Overview};
use crate::ticker::Ticker;
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, Wrong, check_stop};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "threads",
    |_| Traits::default(),
    Overview {
        summary: "creates and ends threads",
        primary: "total-time",
        machine: &[],
        keys: &[
            Key::new("count", &["20000"], "threads in all"),
            Key::new("at_once", &["50"], ""),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Number of threads to create.
    count: u64,
    /// Most threads alive at a time.
    at_once: usize,
    limit_ns: u64,
}

/// Stack of the threads, which only count.
const STACK_BYTES: usize = 64 << 10;

/// Number of threads between two checks of the clock.
const CHECK_INTERVAL: u64 = 256;

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let count = options::count(fields, "count", 1..=100_000_000, 100_000);
        let at_once = options::count(fields, "at_once", 1..=10_000, 50);
        let timing = options::limit(fields, Duration::from_secs(600));
        Some(Self {
            count: count?,
            at_once: at_once? as usize,
            limit_ns: timing?.window.as_nanos() as u64,
        })
    }
}

impl Workload for Options {
    fn timing(&self) -> Timing {
        Timing::from_ns(0, self.limit_ns)
    }

    fn drive(&self, _: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let mut ticker = Ticker::begin(control.watcher, Duration::ZERO);
        let lived = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let mut alive = VecDeque::new();
        for number in 0..self.count {
            if alive.len() == self.at_once {
                join(alive.pop_front())?;
            }
            alive.push_back(spawn(&lived)?);
            // Not for each thread, because it would add to the measured time.
            if number % CHECK_INTERVAL == CHECK_INTERVAL - 1 {
                ticker.tick(CHECK_INTERVAL);
                self.check_end(began, control.stop)?;
            }
        }
        while !alive.is_empty() {
            join(alive.pop_front())?;
        }
        let took = began.elapsed().as_secs_f64();
        let lived = lived.load(Ordering::Relaxed);
        if lived != self.count {
            let what = format!("threads that ran: {lived} of {}", self.count);
            return Err(Wrong(what).into());
        }
        let (lower, each) = (Direction::Lower, took * 1e6 / self.count as f64);
        Ok(Driven {
            figures: vec![
                Figure::new("total-time", "s", lower, Role::Primary, took),
                secondary("per-thread", "us", lower, each),
            ],
            ..Driven::default()
        })
    }
}

impl Options {
    fn check_end(&self, began: Instant, stop: &AtomicBool) -> Result<()> {
        check_stop(stop)?;
        if began.elapsed() > Duration::from_nanos(self.limit_ns) {
            let limit = base::input::units::show_duration(Duration::from_nanos(self.limit_ns));
            let what = format!("{} threads took more than {limit}", self.count);
            return Err(Wrong(what).into());
        }
        Ok(())
    }
}

fn spawn(lived: &Arc<AtomicU64>) -> Result<JoinHandle<()>> {
    let lived = Arc::clone(lived);
    let builder = thread::Builder::new().stack_size(STACK_BYTES);
    let spawned = builder.spawn(move || {
        lived.fetch_add(1, Ordering::Relaxed);
    });
    spawned.context("create a thread")
}

fn join(thread: Option<JoinHandle<()>>) -> Result<()> {
    let ended = thread.map_or(Ok(()), JoinHandle::join);
    ended.map_err(|_| Wrong("a thread ended in a panic".into()).into())
}
