//! `sched-yield`: the cost of choosing the next task among a rising number of runnable tasks.
//!
//! After the claim for 2.6's O(1) scheduler: 2.4 examined every runnable task, so its cost grew
//! with their number. Here tasks only yield, so nearly all time is spent in the scheduler.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use plan::Traits;
use plan::fields::Fields;
use record::curve::{Curve, Point};
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::busy_tasks::run_beside;
use crate::context::WorkloadContext;
use crate::figures::secondary;
use crate::options;
use crate::overview::{Key, Overview, WARMUP};
use crate::ticker::Ticker;
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, Wrong, check_stop};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "sched-yield",
    |_| Traits::default(),
    Overview {
        summary: "what choosing the next task costs among many that could run",
        primary: "yield-last",
        machine: &[],
        keys: &[
            Key::new(
                "tasks",
                &["[2, 8, 32, 128, 512]"],
                "tasks that give way, one step after the other",
            ),
            WARMUP,
            Key::new("window", &["\"1s\""], "load that is counted, of each step"),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Tasks of each step, rising.
    tasks: Vec<u64>,
    #[serde(flatten)]
    timing: Timing,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let tasks = options::steps(fields, "tasks", 1..=10_000, "[2, 8, 32, 128, 512]");
        let timing = options::timing(fields);
        Some(Self {
            tasks: tasks?,
            timing: timing?,
        })
    }
}

impl Workload for Options {
    fn timing(&self) -> Timing {
        self.timing.of_steps(self.tasks.len())
    }

    fn drive(&self, _: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let stop = control.stop;
        let (mut watcher, mut ticker) = (Some(&mut *control.watcher), None);
        let mut steps = Vec::new();
        for tasks in &self.tasks {
            let done: Vec<Count> = (0..*tasks).map(|_| Count::default()).collect();
            let measure = || {
                wait_for_all(&done, stop);
                let ticker = ticker.get_or_insert_with(|| {
                    let watcher = watcher.take().expect("a drive begins once");
                    Ticker::begin(watcher, self.timing.warmup)
                });
                self.step(&done, stop, ticker)
            };
            let cost_ns = run_beside("yield", &done, yield_repeatedly, measure)??;
            steps.push((*tasks, cost_ns));
        }
        Ok(Driven {
            figures: figures(&steps),
            curves: vec![curve(&steps)],
            ..Driven::default()
        })
    }
}

impl Options {
    /// Time per yield in the window, in nanoseconds.
    fn step(&self, done: &[Count], stop: &AtomicBool, ticker: &mut Ticker<'_>) -> Result<f64> {
        let sum = || -> u64 {
            done.iter()
                .map(|count| count.0.load(Ordering::Relaxed))
                .sum()
        };
        thread::sleep(self.timing.warmup);
        let (began, before) = (Instant::now(), sum());
        thread::sleep(self.timing.window);
        let (took, count) = (began.elapsed(), sum() - before);
        check_stop(stop)?;
        ticker.tick(count);
        if count == 0 {
            let tasks = done.len();
            return Err(Wrong(format!("no task of {tasks} gave way in the window")).into());
        }
        Ok(took.as_nanos() as f64 / count as f64)
    }
}

/// Number of yields of a task, on its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU64);

/// Waits until each task has yielded once, because schedulers may prefer running tasks to new ones.
fn wait_for_all(done: &[Count], stop: &AtomicBool) {
    let is_waiting = |count: &Count| count.0.load(Ordering::Relaxed) == 0;
    while done.iter().any(is_waiting) && !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn yield_repeatedly(count: &Count, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        thread::yield_now();
        count.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Number of tasks, and the time per yield in nanoseconds.
type Step = (u64, f64);

fn figures(steps: &[Step]) -> Vec<Figure> {
    let lower = Direction::Lower;
    let Some((_, last)) = steps.last() else {
        return Vec::new();
    };
    let mut figures = vec![Figure::new("yield-last", "ns", lower, Role::Primary, *last)];
    // 1 if the cost does not depend on the number of tasks.
    if let [(_, first), .., _] = steps {
        figures.push(secondary("yield-first", "ns", lower, *first));
        figures.push(secondary("growth", "ratio", lower, last / first));
    }
    figures
}

fn curve(steps: &[Step]) -> Curve {
    let points = steps.iter().map(|(tasks, cost_ns)| Point {
        at: *tasks as f64,
        value: *cost_ns,
    });
    Curve {
        name: "yield".into(),
        unit: "ns".into(),
        direction: Direction::Lower,
        axis: "tasks".into(),
        points: points.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_is_primary_and_growth_is_relative_to_the_first() {
        let values = |steps: &[Step]| -> Vec<(String, f64)> {
            let figures = figures(steps).into_iter();
            figures
                .map(|figure| (figure.spec.name, figure.value))
                .collect()
        };
        let named = |name: &str, value| (name.to_string(), value);
        assert_eq!(values(&[]), []);
        assert_eq!(values(&[(2, 100.0)]), [named("yield-last", 100.0)]);
        let many = [
            named("yield-last", 800.0),
            named("yield-first", 100.0),
            named("growth", 8.0),
        ];
        assert_eq!(values(&[(2, 100.0), (8, 200.0), (512, 800.0)]), many);
    }
}
