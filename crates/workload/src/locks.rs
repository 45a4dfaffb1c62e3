//! `locks`: the cost of locking and unlocking, with and without contention, by kind of lock.
//!
//! After the claim for 2.6's futex(2): an uncontended lock is taken without a system call. Before
//! that, threads waited in kernel objects, such as a pipe with one byte in it. `futex_waitv(2)`,
//! the first of the futex2 calls, waits for the same words of memory. A counter under the lock is
//! checked: a lock that admits two tasks at once would lose counts.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use plan::Traits;
use plan::fields::Fields;
use record::metric::{Direction, Figure, Role};
use rustix::io::Errno;
use rustix::thread::futex::{self, Wait, WaitFlags, WaitPtr, WaitvFlags};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::busy_tasks::run_beside;
use crate::context::WorkloadContext;
use crate::figures::secondary;
use crate::options;
use crate::overview::{Key, Overview, WARMUP};
use crate::ticker::Ticker;
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, Wrong, check_stop};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "locks",
    |_| Traits::default(),
    Overview {
        summary: "takes a lock alone and against others: a pipe, futex, futex2",
        primary: "futex-contended",
        machine: &[],
        keys: &[
            Key::new("tasks", &["8"], "tasks that want the lock at once"),
            WARMUP,
            Key::new(
                "window",
                &["\"1s\""],
                "load that is counted, of each of six",
            ),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Number of tasks that compete for the lock.
    tasks: u64,
    #[serde(flatten)]
    timing: Timing,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let tasks = options::count(fields, "tasks", 2..=10_000, 8);
        let timing = options::timing(fields);
        Some(Self {
            tasks: tasks?,
            timing: timing?,
        })
    }
}

/// How a task waits for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum LockKind {
    /// For the byte in a pipe: every lock and unlock is a system call.
    Pipe,
    /// By `FUTEX_WAIT` if the lock is taken.
    Futex,
    /// By `futex_waitv` if the lock is taken.
    Futex2,
}

impl LockKind {
    fn word(self) -> &'static str {
        self.into()
    }
}

/// A kind, and the time per lock and unlock in nanoseconds: uncontended and contended.
type Cost = (LockKind, f64, f64);

impl Workload for Options {
    fn timing(&self) -> Timing {
        self.timing.of_steps(2 * LockKind::VARIANTS.len())
    }

    fn drive(&self, _: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let mut ticker = Ticker::begin(control.watcher, self.timing.warmup);
        let mut costs = Vec::new();
        for &kind in LockKind::VARIANTS {
            if kind == LockKind::Futex2 && !has_futex2() {
                continue;
            }
            let alone_ns = self.run(kind, 1, control.stop, &mut ticker)?;
            let contended_ns = self.run(kind, self.tasks, control.stop, &mut ticker)?;
            costs.push((kind, alone_ns, contended_ns));
        }
        Ok(Driven {
            figures: figures(&costs),
            ..Driven::default()
        })
    }
}

impl Options {
    /// Time per lock and unlock in the window, in nanoseconds.
    fn run(
        &self,
        kind: LockKind,
        tasks: u64,
        stop: &AtomicBool,
        ticker: &mut Ticker<'_>,
    ) -> Result<f64> {
        let lock = Lock::new(kind)?;
        let shared = Shared::default();
        let counts: Vec<AtomicU64> = (0..tasks).map(|_| AtomicU64::new(0)).collect();
        let sum = || -> u64 {
            counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .sum()
        };
        let take = |taken: &AtomicU64, stop: &AtomicBool| {
            if let Err(why) = take_repeatedly(&lock, &shared, taken, tasks, stop) {
                *shared.failed() = Some(why);
            }
        };
        let (took, count) = run_beside("locks", &counts, take, || {
            thread::sleep(self.timing.warmup);
            let (began, before) = (Instant::now(), sum());
            thread::sleep(self.timing.window);
            (began.elapsed(), sum() - before)
        })?;
        check_stop(stop)?;
        ticker.tick(count);
        if let Some(why) = shared.failed().take() {
            return Err(why).with_context(|| format!("take a lock by {}", kind.word()));
        }
        let (all, counted) = (sum(), shared.counted.load(Ordering::Relaxed));
        if count == 0 || all != counted {
            let what = format!(
                "{} with {tasks} tasks: taken {all} times, counted {counted}, {count} in the window",
                kind.word()
            );
            return Err(Wrong(what).into());
        }
        Ok(took.as_nanos() as f64 / count as f64)
    }
}

/// The counter that the lock protects, and the last failure.
#[derive(Debug, Default)]
struct Shared {
    counted: AtomicU64,
    failed: Mutex<Option<std::io::Error>>,
}

impl Shared {
    fn failed(&self) -> MutexGuard<'_, Option<std::io::Error>> {
        self.failed.lock().expect("no task panics while holding it")
    }
}

/// Takes the lock, counts and releases it, repeatedly. With other tasks it yields while it has the
/// lock, so that they find it taken even on a single CPU.
fn take_repeatedly(
    lock: &Lock,
    shared: &Shared,
    taken: &AtomicU64,
    tasks: u64,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        lock.take()?;
        // Not an atomic increment: two tasks at once would lose a count.
        let counted = shared.counted.load(Ordering::Relaxed);
        if 1 < tasks {
            thread::yield_now();
        }
        shared.counted.store(counted + 1, Ordering::Relaxed);
        lock.release()?;
        taken.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// A lock.
#[derive(Debug)]
enum Lock {
    /// The task that has read the byte has the lock.
    Pipe(PipeReader, PipeWriter),
    /// 0: free; 1: taken; 2: taken, and tasks may wait.
    Word(AtomicU32, fn(&AtomicU32) -> rustix::io::Result<()>),
}

impl Lock {
    fn new(kind: LockKind) -> Result<Self> {
        Ok(match kind {
            LockKind::Pipe => {
                let (reader, mut writer) = pipe().context("make a pipe")?;
                writer.write_all(&[0]).context("write to a pipe")?;
                Self::Pipe(reader, writer)
            }
            LockKind::Futex => Self::Word(AtomicU32::new(0), wait_futex),
            LockKind::Futex2 => Self::Word(AtomicU32::new(0), wait_futex2),
        })
    }

    /// The third mutex of Drepper's "Futexes Are Tricky".
    fn take(&self) -> std::io::Result<()> {
        let (word, wait) = match self {
            Self::Pipe(reader, _) => return (&*reader).read_exact(&mut [0]),
            Self::Word(word, wait) => (word, wait),
        };
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        if word.compare_exchange(0, 1, acquire, relaxed).is_ok() {
            return Ok(());
        }
        while word.swap(2, acquire) != 0 {
            match wait(word) {
                // The word has changed, or a signal came: check again.
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    fn release(&self) -> std::io::Result<()> {
        match self {
            Self::Pipe(_, writer) => (&*writer).write_all(&[0]),
            Self::Word(word, _) => {
                if word.swap(0, Ordering::Release) == 2 {
                    futex::wake(word, futex::Flags::PRIVATE, 1)?;
                }
                Ok(())
            }
        }
    }
}

/// Sleeps while the word is 2.
fn wait_futex(word: &AtomicU32) -> rustix::io::Result<()> {
    futex::wait(word, futex::Flags::PRIVATE, 2, None)
}

/// Like `wait_futex`, by the newer call.
fn wait_futex2(word: &AtomicU32) -> rustix::io::Result<()> {
    let mut wait = Wait::new();
    wait.val = 2;
    wait.uaddr = WaitPtr::new(word.as_ptr().cast());
    wait.flags = WaitFlags::PRIVATE | WaitFlags::SIZE_U32;
    let clock = futex::ClockId::Monotonic;
    futex::waitv(&[wait], WaitvFlags::empty(), None, clock).map(drop)
}

/// Whether the kernel has `futex_waitv`, added in 5.16. Kernels that have it also refuse to wait
/// for nothing, but with another error than `ENOSYS`.
fn has_futex2() -> bool {
    let clock = futex::ClockId::Monotonic;
    let answer = futex::waitv(&[], WaitvFlags::empty(), None, clock);
    answer != Err(Errno::NOSYS)
}

fn figures(costs: &[Cost]) -> Vec<Figure> {
    let lower = Direction::Lower;
    let mut figures = Vec::new();
    for (kind, alone_ns, contended_ns) in costs {
        let name = format!("{}-contended", kind.word());
        match kind {
            LockKind::Futex => {
                let primary = Figure::new(&name, "ns", lower, Role::Primary, *contended_ns);
                figures.insert(0, primary);
            }
            LockKind::Pipe | LockKind::Futex2 => {
                figures.push(secondary(&name, "ns", lower, *contended_ns));
            }
        }
        let name = format!("{}-alone", kind.word());
        figures.push(secondary(&name, "ns", lower, *alone_ns));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// `drive` fails if a count is lost.
    #[test]
    fn no_count_is_lost_by_any_lock() {
        let options = Options {
            tasks: 4,
            timing: Timing::from_ns(1_000_000, 50_000_000),
        };
        let context = WorkloadContext::example();
        let driven = testing::drive(&options, &context).unwrap();
        let figures = driven.figures.iter();
        let names: Vec<_> = figures.map(|figure| figure.spec.name.as_str()).collect();
        let always = [
            "futex-contended",
            "pipe-contended",
            "pipe-alone",
            "futex-alone",
        ];
        assert!(names.starts_with(&always), "{names:?}");
    }

    #[test]
    fn a_released_lock_is_free() {
        let lock = Lock::new(LockKind::Futex).unwrap();
        let Lock::Word(word, _) = &lock else {
            panic!("a futex has a word")
        };
        lock.take().unwrap();
        assert_eq!(word.load(Ordering::Relaxed), 1);
        lock.release().unwrap();
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }
}
