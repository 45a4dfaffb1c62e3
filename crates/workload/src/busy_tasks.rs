//! Tasks that want the CPU while something is measured. All are there, and have run, before the first begins: a scheduler that
//! shares a parent's time with its children, as 2.4's does, would otherwise have the one that starts them, and those that began
//! without any, wait among them, for half a minute beside 500. A thread of
//! its own starts them: under 2.6.0's scheduler each fork costs the parent some of its credit for sleep, and after eight of them
//! whoever measures would no longer be interactive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, mpsc};
use std::thread;

use anyhow::{Context, Result};

/// They keep little on their stacks.
const STACK_BYTES: usize = 64 << 10;

/// Does `work` while a task of this name runs for each of `each`, until it is told that it is enough.
pub(crate) fn among<T: Sync, R>(
    (name, each): (&str, &[T]),
    task: impl Fn(&T, &AtomicBool) + Sync,
    work: impl FnOnce() -> R,
) -> Result<R> {
    let enough = AtomicBool::new(false);
    let gate = RwLock::new(());
    thread::scope(|scope| {
        let (gate, enough, task) = (&gate, &enough, &task);
        let closed = gate.write().expect("nobody panics while holding the gate");
        let (arrived, arrivals) = mpsc::channel();
        let parent = scope.spawn(move || {
            each.iter().try_for_each(|own| {
                let builder = thread::Builder::new()
                    .name(name.into())
                    .stack_size(STACK_BYTES);
                let arrived = arrived.clone();
                let spawned = builder.spawn_scoped(scope, move || {
                    // Nobody listens any more where another one could not be started.
                    let _ = arrived.send(());
                    drop(gate.read());
                    task(own, enough);
                });
                spawned.map(drop).context("create a task")
            })
        });
        let started = parent.join().expect("starting tasks does not panic");
        if started.is_ok() {
            arrivals.iter().take(each.len()).for_each(drop);
        }
        drop(closed);
        let result = started.map(|()| work());
        enough.store(true, Ordering::Relaxed);
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
        let count = |own: &AtomicU64, enough: &AtomicBool| {
            while !enough.load(Ordering::Relaxed) {
                own.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        };
        let done = among(("count", &counts), count, || {
            while counts.iter().any(|own| own.load(Ordering::Relaxed) == 0) {
                thread::yield_now();
            }
            "done"
        });
        assert_eq!(done.unwrap(), "done");
        let alone = among(("none", &[] as &[()]), |(), _| {}, || 7);
        assert_eq!(alone.unwrap(), 7);
    }
}
