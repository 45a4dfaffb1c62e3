//! `interactive`: wake-up latency while a rising number of tasks competes for the CPU.
//!
//! After the tests of 2.6's O(1) scheduler, whose latency should not grow with the number of
//! runnable tasks. One task wakes every 10 ms, as on user input, and does a little work. Others
//! compute, or make long system calls, which a preemptible kernel can interrupt.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use base::latency::Latency;
use plan::Traits;
use plan::fields::Fields;
use record::curve::{Curve, Point};
use record::metric::{Direction, Figure, Role};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{name as thread_name, set_name};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::busy_tasks::run_beside;
use crate::context::WorkloadContext;
use crate::figures::secondary;
use crate::options;
use crate::overview::{Key, Overview, WARMUP};
use crate::ticker::Ticker;
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, check_stop};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "interactive",
    |_| Traits::default(),
    Overview {
        summary: "how late a task wakes beside others that only compute",
        primary: "wakeup-p99",
        machine: &[],
        keys: &[
            Key::new(
                "tasks",
                &["[0, 1, 4, 16, 64]"],
                "computing tasks, one step after the other",
            ),
            Key::shown(
                "beside",
                &["\"system-calls\""],
                "the others are in long system calls, which preemption is about; left out, they compute",
            ),
            WARMUP,
            Key::new("window", &["\"3s\""], "load that is counted, of each step"),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Other tasks of each step, rising.
    tasks: Vec<u64>,
    /// What these tasks do.
    beside: Beside,
    #[serde(flatten)]
    timing: Timing,
}

/// What the other tasks do.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
enum Beside {
    /// Compute in user space.
    #[default]
    Computing,
    /// Call poll(2) for `POLLED` files, a system call without voluntary preemption points.
    SystemCalls,
}

/// Number of files of a poll(2) call; all are the same file.
const POLLED: usize = 50_000;

/// Interval of wake-ups.
const INTERVAL: Duration = Duration::from_millis(10);

/// Work after each wake-up, in rounds of arithmetic: some tens of microseconds on a current CPU.
const WORK_ROUNDS: u64 = 20_000;

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let tasks = options::steps(fields, "tasks", 0..=10_000, "[0, 1, 8, 64, 256]");
        let beside = if fields.takes("beside") {
            fields.variant("beside")
        } else {
            Some(Beside::Computing)
        };
        let timing = options::timing(fields);
        Some(Self {
            tasks: tasks?,
            beside: beside?,
            timing: timing?,
        })
    }
}

impl Workload for Options {
    fn timing(&self) -> Timing {
        self.timing.of_steps(self.tasks.len())
    }

    fn drive(&self, _: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let mut ticker = Ticker::begin(control.watcher, self.timing.warmup);
        let before = thread_name();
        // Profiles distinguish tasks by name. On failure the task keeps the name of its process.
        let _ = set_name(c"waker");
        let mut steps = Vec::new();
        for tasks in &self.tasks {
            let others = vec![(); *tasks as usize];
            let measure = || self.measure(control.stop, &mut ticker);
            let beside = |(): &(), stop: &AtomicBool| match self.beside {
                Beside::Computing => compute_until(stop),
                Beside::SystemCalls => poll_until(stop),
            };
            let latencies = run_beside(self.task_name(), &others, beside, measure)??;
            steps.push((*tasks, latencies));
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
}

impl Options {
    /// Name of the other tasks.
    fn task_name(&self) -> &'static str {
        match self.beside {
            Beside::Computing => "compute",
            Beside::SystemCalls => "system-calls",
        }
    }

    /// Wakes at regular intervals until the window is over. Returns the latencies of wake-ups in
    /// the window.
    fn measure(&self, stop: &AtomicBool, ticker: &mut Ticker<'_>) -> Result<Latency> {
        let began = Instant::now();
        let opens = self.timing.warmup;
        let closes = opens + self.timing.window;
        let mut waits = Latency::new();
        for number in 1.. {
            let due = INTERVAL * number;
            if due > closes {
                break;
            }
            check_stop(stop)?;
            // If the previous work took too long, the wake-up is due at once.
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

fn compute_until(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        compute(WORK_ROUNDS);
    }
}

fn poll_until(stop: &AtomicBool) {
    // The pipe never becomes readable.
    let (silent, _held) =
        std::io::pipe().expect("the agent may open as many files as there can be");
    let mut polled: Vec<_> = (0..POLLED)
        .map(|_| PollFd::new(&silent, PollFlags::IN))
        .collect();
    while !stop.load(Ordering::Relaxed) {
        let ready = poll(&mut polled, Some(&Timespec::default()));
        assert_eq!(ready, Ok(0), "poll of {POLLED} files that are silent");
    }
}

/// Arithmetic that the compiler cannot remove.
fn compute(rounds: u64) {
    static SINK: AtomicU64 = AtomicU64::new(0);
    let sum = (0..rounds).fold(1, |sum: u64, round| {
        sum.wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(round)
    });
    SINK.store(sum, Ordering::Relaxed);
}

/// Number of other tasks, and wake-up latencies.
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
        secondary("wakeup-p50", "us", lower, us(&all, 0.5)),
        secondary("wakeup-mean", "us", lower, all.mean_ns() / 1e3),
        secondary("wakeup-max", "us", lower, us(&all, 1.0)),
    ];
    // 1 if the latency does not depend on the number of tasks.
    if let [(_, first), .., (_, last)] = steps
        && first.mean_ns() > 0.0
    {
        let growth = last.mean_ns() / first.mean_ns();
        figures.push(secondary("growth", "ratio", lower, growth));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn beside(line: &str) -> Result<Beside, String> {
        let text = format!("kind = \"interactive\"\ntasks = [0, 1]\nwindow = \"1s\"\n{line}");
        testing::options::<Options>(&text).map(|options| options.beside)
    }

    #[test]
    fn other_tasks_compute_by_default() {
        assert_eq!(beside(""), Ok(Beside::Computing));
        assert_eq!(beside("beside = \"computing\""), Ok(Beside::Computing));
        assert_eq!(beside("beside = \"system-calls\""), Ok(Beside::SystemCalls));
        let why = "plan.toml:4: unknown beside: \"system-call\" (did you mean \"system-calls\"?)";
        assert_eq!(beside("beside = \"system-call\""), Err(why.into()));
    }
}
