//! `interactive`: how late short work begins while more and more tasks want the CPU.
//!
//! After the tests of 2.6's O(1) scheduler: its latency should not grow with the number of runnable tasks. One task
//! wakes every 10 ms, as a person's input would have it, and does a little work; `tasks` others only compute.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use plan::fields::Fields;
use record::curve::{Curve, Point};
use record::latency::Latency;
use record::metric::{Direction, Figure, Role};
use rustix::thread::{name as thread_name, set_name};
use serde::{Deserialize, Serialize};

use crate::busy_tasks::among;
use crate::context::WorkloadContext;
use crate::figures::{Seen, guard};
use crate::options;
use crate::overview::{Key, Overview, WARMUP};
use crate::ticker::Ticker;
use crate::{Checked, Driven, Kind, Timing, Watcher, Workload};

pub(crate) const KIND: Kind = Kind {
    word: "interactive",
    overview: Overview {
        summary: "how late a task wakes beside others that only compute",
        primary: "wakeup-p99",
        machine: &[],
        keys: &[
            Key::new(
                "tasks",
                &["[0, 1, 4, 16, 64]"],
                "computing tasks, one step after the other",
            ),
            WARMUP,
            Key::new("window", &["\"3s\""], "load that is counted, of each step"),
        ],
    },
    check,
    from_options: |options| Ok(Box::new(Options::deserialize(options)?)),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Computing tasks of each step, rising.
    tasks: Vec<u64>,
    warmup_ns: u64,
    window_ns: u64,
}

/// Time between two wake-ups.
const BEAT: Duration = Duration::from_millis(10);

/// Work after each: rounds of arithmetic, some tens of microseconds on a CPU of today.
const WORK_ROUNDS: u64 = 20_000;

fn check(fields: &Fields<'_>) -> Option<Checked> {
    let tasks = options::steps(fields, "tasks", 0..=10_000, "[0, 1, 8, 64, 256]");
    let timing = options::timing(fields)?;
    let options = Options {
        tasks: tasks?,
        warmup_ns: timing.warmup.as_nanos() as u64,
        window_ns: timing.window.as_nanos() as u64,
    };
    Some(Checked::new(&options, options.timing()))
}

impl Workload for Options {
    fn timing(&self) -> Timing {
        let warmup = Duration::from_nanos(self.warmup_ns);
        let step = warmup + Duration::from_nanos(self.window_ns);
        let all = step.saturating_mul(self.tasks.len() as u32);
        Timing {
            warmup,
            window: all.saturating_sub(warmup),
        }
    }

    fn drive(
        &self,
        _: &WorkloadContext,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        let mut ticker = Ticker::begin(watcher, Duration::from_nanos(self.warmup_ns));
        let before = thread_name();
        // A profile tells tasks by their names; where it cannot be had, one task is called as its process.
        let _ = set_name(c"waker");
        let mut steps = Vec::new();
        for tasks in &self.tasks {
            let others = vec![(); *tasks as usize];
            let beat = || self.beat(stop, &mut ticker);
            let waits = among(("compute", &others), |(), enough| compute_on(enough), beat)??;
            steps.push((*tasks, waits));
        }
        if let Ok(before) = before {
            let _ = set_name(&before);
        }
        Ok(Driven {
            figures: figures(&steps),
            curves: [
                ("wakeup-p50", 0.5),
                ("wakeup-p99", 0.99),
                ("wakeup-max", 1.0),
            ]
            .map(|(name, quantile)| curve(name, quantile, &steps))
            .into(),
            ..Driven::default()
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        Ok(seen.driven.figures.clone())
    }
}

impl Options {
    /// Wakes on every beat until the window is over; how late each wake-up in the window was.
    fn beat(&self, stop: &AtomicBool, ticker: &mut Ticker<'_>) -> Result<Latency> {
        let began = Instant::now();
        let opens = Duration::from_nanos(self.warmup_ns);
        let closes = opens + Duration::from_nanos(self.window_ns);
        let mut waits = Latency::new();
        for number in 1.. {
            let due = BEAT * number;
            if due > closes {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                bail!("stopped by the host");
            }
            // A beat that work before it has run into is due at once, and late.
            thread::sleep(due.saturating_sub(began.elapsed()));
            let late = began.elapsed().saturating_sub(due);
            if due > opens {
                waits.record(late.as_nanos() as u64);
            }
            compute(WORK_ROUNDS);
            ticker.tick(1);
        }
        Ok(waits)
    }
}

/// Computes for as long as it is to.
fn compute_on(enough: &AtomicBool) {
    while !enough.load(Ordering::Relaxed) {
        compute(WORK_ROUNDS);
    }
}

/// Arithmetic that no compiler can leave out.
fn compute(rounds: u64) {
    static SINK: AtomicU64 = AtomicU64::new(0);
    let sum = (0..rounds).fold(1, |sum: u64, round| {
        sum.wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(round)
    });
    SINK.store(sum, Ordering::Relaxed);
}

type Step = (u64, Latency);

fn figures(steps: &[Step]) -> Vec<Figure> {
    let mut all = Latency::new();
    for (_, waits) in steps {
        all.merge(waits);
    }
    let us = |waits: &Latency, quantile| waits.quantile_ns(quantile) as f64 / 1e3;
    let lower = Direction::Lower;
    let mut figures = vec![
        Figure::new("wakeup-p99", "us", lower, Role::Primary, us(&all, 0.99)),
        guard("wakeup-p50", "us", lower, us(&all, 0.5)),
        guard("wakeup-mean", "us", lower, all.mean_ns() / 1e3),
        guard("wakeup-max", "us", lower, us(&all, 1.0)),
    ];
    // Flat for a scheduler whose latency does not depend on the number of tasks.
    if let [(_, first), .., (_, last)] = steps
        && first.mean_ns() > 0.0
    {
        let growth = last.mean_ns() / first.mean_ns();
        figures.push(guard("growth", "ratio", lower, growth));
    }
    figures
}

fn curve(name: &str, quantile: f64, steps: &[Step]) -> Curve {
    let points = steps.iter().map(|(tasks, waits)| Point {
        at: *tasks as f64,
        value: waits.quantile_ns(quantile) as f64 / 1e3,
    });
    Curve {
        name: name.into(),
        unit: "us".into(),
        direction: Direction::Lower,
        axis: "tasks".into(),
        points: points.collect(),
    }
}
