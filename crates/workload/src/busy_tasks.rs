//! Tasks that compete for the CPU during a measurement.
//!
//! All tasks have started and run once before the first begins its work. A scheduler such as 2.4's
//! divides a parent's time slice among its children. Otherwise the parent and its last children
//! would wait for the first ones, for half a minute with 500 tasks. A separate thread starts the
//! tasks: under 2.6.0 each fork reduces the parent's sleep average, and after eight forks the
//! measuring thread would no longer count as interactive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, mpsc};
use std::thread;

use anyhow::{Context, Result};

/// Tasks need little stack.
const STACK_BYTES: usize = 64 << 10;

/// Does `work` while a task with this name runs for each item. Tasks must end when the flag is set.
pub(crate) fn run_beside<T: Sync, R>(
    name: &str,
    items: &[T],
    task: impl Fn(&T, &AtomicBool) + Sync,
    work: impl FnOnce() -> R,
) -> Result<R> {
    let stop = AtomicBool::new(false);
    let gate = RwLock::new(());
    thread::scope(|scope| {
        let (gate, stop, task) = (&gate, &stop, &task);
        let closed = gate.write().expect("nobody panics while holding the gate");
        let (arrived, arrivals) = mpsc::channel();
        let parent = scope.spawn(move || {
            items.iter().try_for_each(|item| {
                let builder = thread::Builder::new()
                    .name(name.into())
                    .stack_size(STACK_BYTES);
                let arrived = arrived.clone();
                let spawned = builder.spawn_scoped(scope, move || {
                    // Fails only if another task could not be started.
                    let _ = arrived.send(());
                    drop(gate.read());
                    task(item, stop);
                });
                spawned.map(drop).context("create a task")
            })
        });
        let started = parent.join().expect("starting tasks does not panic");
        if started.is_ok() {
            arrivals.iter().take(items.len()).for_each(drop);
        }
        drop(closed);
        let result = started.map(|()| work());
        stop.store(true, Ordering::Relaxed);
        result
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn all_tasks_run_until_the_work_is_done() {
        let counts = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
        let count = |count: &AtomicU64, stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                count.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        };
        let done = run_beside("count", &counts, count, || {
            while counts
                .iter()
                .any(|count| count.load(Ordering::Relaxed) == 0)
            {
                thread::yield_now();
            }
            "done"
        });
        assert_eq!(done.unwrap(), "done");
        let alone = run_beside("none", &[] as &[()], |(), _| {}, || 7);
        assert_eq!(alone.unwrap(), 7);
    }
}
