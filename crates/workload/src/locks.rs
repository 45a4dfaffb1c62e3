//! `locks`: what it costs to take a lock and to give it back, alone and against others, by how the waiting is done.
//!
//! After the claim for 2.6's futex(2): a lock that nobody else wants is taken without the kernel. Before it, threads waited in
//! something that the kernel keeps, of which a pipe with one byte in it is the plainest. `futex_waitv(2)`, the first of the calls
//! called futex2, waits for the same words of memory. Every number counted under a lock is checked: a lock that let two in
//! would lose some.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plan::Traits;
use plan::fields::Fields;
use record::metric::{Direction, Figure, Role};
use rustix::io::Errno;
use rustix::thread::futex::{self, Wait, WaitFlags, WaitPtr, WaitvFlags};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::busy_tasks::among;
use crate::context::WorkloadContext;
use crate::figures::{Seen, guard};
use crate::options;
use crate::overview::{Key, Overview, WARMUP};
use crate::ticker::Ticker;
use crate::{Checked, Driven, Kind, Timing, Watcher, Workload, Wrong};

pub(crate) const KIND: Kind = Kind {
    word: "locks",
    traits: |_| Traits::default(),
    overview: Overview {
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
    check,
    from_options: |options| Ok(Box::new(Options::deserialize(options)?)),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Tasks that want the lock at once.
    tasks: u64,
    warmup_ns: u64,
    window_ns: u64,
}

fn check(fields: &Fields<'_>) -> Option<Checked> {
    let tasks = options::count(fields, "tasks", 2..=10_000, 8);
    let timing = options::timing(fields)?;
    let options = Options {
        tasks: tasks?,
        warmup_ns: timing.warmup.as_nanos() as u64,
        window_ns: timing.window.as_nanos() as u64,
    };
    Some(Checked::new(&options, options.timing()))
}

/// How a task waits for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Way {
    /// For the byte in a pipe: every lock and unlock enters the kernel.
    Pipe,
    /// By `FUTEX_WAIT`, once another has it.
    Futex,
    /// By `futex_waitv`, once another has it.
    Futex2,
}

impl Way {
    fn word(self) -> &'static str {
        self.into()
    }
}

/// A way, the time for each lock and unlock alone, and among the tasks, in nanoseconds.
type Cost = (Way, f64, f64);

impl Workload for Options {
    fn timing(&self) -> Timing {
        Timing::of_steps(2 * Way::VARIANTS.len(), self.warmup_ns, self.window_ns)
    }

    fn drive(
        &self,
        _: &WorkloadContext,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        let mut ticker = Ticker::begin(watcher, Duration::from_nanos(self.warmup_ns));
        let mut costs = Vec::new();
        for &way in Way::VARIANTS {
            if way == Way::Futex2 && !has_futex2() {
                continue;
            }
            let alone_ns = self.run(way, 1, stop, &mut ticker)?;
            let contended_ns = self.run(way, self.tasks, stop, &mut ticker)?;
            costs.push((way, alone_ns, contended_ns));
        }
        Ok(Driven {
            figures: figures(&costs),
            ..Driven::default()
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        Ok(seen.driven.figures.clone())
    }
}

impl Options {
    /// Time for each lock and unlock in the window, in nanoseconds.
    fn run(&self, way: Way, tasks: u64, stop: &AtomicBool, ticker: &mut Ticker<'_>) -> Result<f64> {
        let lock = Lock::of(way)?;
        let shared = Shared::default();
        let takers: Vec<AtomicU64> = (0..tasks).map(|_| AtomicU64::new(0)).collect();
        let sum = || {
            takers
                .iter()
                .map(|one| one.load(Ordering::Relaxed))
                .sum::<u64>()
        };
        let take = |taken: &AtomicU64, enough: &AtomicBool| {
            if let Err(why) = take_often(&lock, &shared, (taken, tasks), enough) {
                *shared
                    .failed
                    .lock()
                    .expect("nobody panics while holding it") = Some(why);
            }
        };
        let (took, count) = among(("locks", &takers), take, || {
            thread::sleep(Duration::from_nanos(self.warmup_ns));
            let (began, before) = (Instant::now(), sum());
            thread::sleep(Duration::from_nanos(self.window_ns));
            (began.elapsed(), sum() - before)
        })?;
        if stop.load(Ordering::Relaxed) {
            bail!("stopped by the host");
        }
        ticker.tick(count);
        if let Some(why) = shared
            .failed
            .lock()
            .expect("nobody panics while holding it")
            .take()
        {
            return Err(why).with_context(|| format!("take a lock by {}", way.word()));
        }
        let (all, counted) = (sum(), shared.counted.load(Ordering::Relaxed));
        if count == 0 || all != counted {
            let what = format!(
                "{} with {tasks} tasks: taken {all} times, counted {counted}, {count} in the window",
                way.word()
            );
            return Err(Wrong(what).into());
        }
        Ok(took.as_nanos() as f64 / count as f64)
    }
}

/// What the lock protects, and what became of those who took it.
#[derive(Debug, Default)]
struct Shared {
    counted: AtomicU64,
    failed: std::sync::Mutex<Option<std::io::Error>>,
}

/// Takes the lock, counts, and gives it back, until it is enough. Against others it gives way while it has the lock, so that each of
/// them finds it taken, also on one CPU.
fn take_often(
    lock: &Lock,
    shared: &Shared,
    (taken, tasks): (&AtomicU64, u64),
    enough: &AtomicBool,
) -> std::io::Result<()> {
    while !enough.load(Ordering::Relaxed) {
        lock.take()?;
        // Read and written apart: two at once would lose a count.
        let counted = shared.counted.load(Ordering::Relaxed);
        if 1 < tasks {
            thread::yield_now();
        }
        shared.counted.store(counted + 1, Ordering::Relaxed);
        lock.give()?;
        taken.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// A lock of one way.
#[derive(Debug)]
enum Lock {
    /// Whoever has read the byte has the lock.
    Pipe(PipeReader, PipeWriter),
    /// 0: free; 1: taken; 2: taken, and somebody may wait.
    Word(AtomicU32, fn(&AtomicU32) -> rustix::io::Result<()>),
}

impl Lock {
    fn of(way: Way) -> Result<Self> {
        Ok(match way {
            Way::Pipe => {
                let (reader, mut writer) = pipe().context("make a pipe")?;
                writer.write_all(&[0]).context("write to a pipe")?;
                Self::Pipe(reader, writer)
            }
            Way::Futex => Self::Word(AtomicU32::new(0), wait_futex),
            Way::Futex2 => Self::Word(AtomicU32::new(0), wait_futex2),
        })
    }

    /// As in Drepper's "Futexes Are Tricky", the third mutex.
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
                // The word had changed, or a signal came: look again.
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    fn give(&self) -> std::io::Result<()> {
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

/// The same by the newer call.
fn wait_futex2(word: &AtomicU32) -> rustix::io::Result<()> {
    let mut one = Wait::new();
    one.val = 2;
    one.uaddr = WaitPtr::new(word.as_ptr().cast());
    one.flags = WaitFlags::PRIVATE | WaitFlags::SIZE_U32;
    let clock = futex::ClockId::Monotonic;
    futex::waitv(&[one], WaitvFlags::empty(), None, clock).map(drop)
}

/// Whether the kernel has `futex_waitv`, of 5.16: waiting for nothing is refused by those that have it, too, but in other words.
fn has_futex2() -> bool {
    let clock = futex::ClockId::Monotonic;
    let said = futex::waitv(&[], WaitvFlags::empty(), None, clock);
    said != Err(Errno::NOSYS)
}

fn figures(costs: &[Cost]) -> Vec<Figure> {
    let lower = Direction::Lower;
    let mut figures = Vec::new();
    for (way, alone_ns, contended_ns) in costs {
        let name = format!("{}-contended", way.word());
        match way {
            Way::Futex => {
                figures.insert(
                    0,
                    Figure::new(&name, "ns", lower, Role::Primary, *contended_ns),
                );
            }
            Way::Pipe | Way::Futex2 => figures.push(guard(&name, "ns", lower, *contended_ns)),
        }
        figures.push(guard(
            &format!("{}-alone", way.word()),
            "ns",
            lower,
            *alone_ns,
        ));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nobody;

    /// Whatever the machine does meanwhile, no count is lost, or the drive would say so.
    #[test]
    fn no_count_is_lost_by_any_lock() {
        let options = Options {
            tasks: 4,
            warmup_ns: 1_000_000,
            window_ns: 50_000_000,
        };
        let context = WorkloadContext::example();
        let stop = AtomicBool::new(false);
        let driven = options.drive(&context, &stop, &mut Nobody).unwrap();
        let names: Vec<_> = driven
            .figures
            .iter()
            .map(|one| one.spec.name.as_str())
            .collect();
        let always = [
            "futex-contended",
            "pipe-contended",
            "pipe-alone",
            "futex-alone",
        ];
        assert!(names.starts_with(&always), "{names:?}");
    }

    #[test]
    fn a_lock_is_free_again_when_it_was_given_back() {
        let lock = Lock::of(Way::Futex).unwrap();
        lock.take().unwrap();
        let is =
            |want| matches!(&lock, Lock::Word(word, _) if word.load(Ordering::Relaxed) == want);
        assert!(is(1));
        lock.give().unwrap();
        assert!(is(0));
    }
}
