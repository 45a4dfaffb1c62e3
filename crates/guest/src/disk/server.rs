//! The thread that serves a drive: receives requests, and returns results when the drive would have them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use plan::SeekDisk;
use rustix::time::{ClockId, clock_gettime};

use crate::disk::Counts;
use crate::disk::drive::{Command, Drive, Extent};
use crate::disk::store::{Refusal, Store};
use crate::disk::ublk::{Control, FLUSH, Queue, READ, WRITE};

/// Real-time priority: a drive does not wait for a CPU.
const PRIORITY: i32 = 50;

/// `PR_SET_IO_FLUSHER` of `include/uapi/linux/prctl.h`, which libc lacks.
const SET_IO_FLUSHER: libc::c_int = 57;

/// Block size of file systems; a drive has a whole number of blocks.
const BLOCK: u64 = 4096;

/// Statistics that the thread updates.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
    seeks: AtomicU64,
    hits: AtomicU64,
    busy_ns: AtomicU64,
    deepest: AtomicU64,
    kept_bytes: AtomicU64,
    refused: AtomicU64,
}

impl Shared {
    pub(crate) fn counts(&self) -> Counts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            reads: load(&self.reads),
            writes: load(&self.writes),
            flushes: load(&self.flushes),
            seeks: load(&self.seeks),
            hits: load(&self.hits),
            busy_ns: load(&self.busy_ns),
            deepest: load(&self.deepest),
            kept_bytes: load(&self.kept_bytes),
            refused: load(&self.refused),
        }
    }
}

/// Makes the block device and starts its thread; returns the device and its statistics.
pub(crate) fn start(plan: &SeekDisk) -> Result<(PathBuf, Arc<Shared>)> {
    let bytes = plan.bytes / BLOCK * BLOCK;
    let mut control = Control::add(plan.depth, bytes, plan.write_cache_bytes > 0)?;
    let shared = Arc::<Shared>::default();
    let (device, depth) = (control.device(), control.depth());
    let mut server = Server {
        drive: Drive::new(plan),
        store: Store::new(bytes, plan.store_bytes),
        due: VecDeque::new(),
        shared: shared.clone(),
    };
    let (ready, is_ready) = mpsc::channel();
    let serve = move || {
        let mut queue = match raise_priority().and_then(|()| Queue::open(device, depth)) {
            Ok(queue) => queue,
            Err(why) => {
                let _ = ready.send(Err(why));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        // The kernel removes the device and fails its requests.
        if let Err(why) = server.serve(&mut queue) {
            eprintln!("bakeoff agent: disk: {why:#}");
        }
    };
    let thread = thread::Builder::new().name("seek-disk".into());
    thread.spawn(serve).context("start the disk's thread")?;
    is_ready.recv().context("the disk's thread ended")??;
    control.start()?;
    Ok((format!("/dev/ublkb{device}").into(), shared))
}

/// Gives the thread real-time priority, and keeps the kernel from writing to this disk to find memory for the thread
/// (`PR_SET_IO_FLUSHER`).
#[expect(unsafe_code, reason = "neither call has a safe form for one thread")]
fn raise_priority() -> Result<()> {
    let parameter = libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: both calls change the calling thread alone, and read nothing but `parameter`, which outlives them.
    let done = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) == 0
            && libc::prctl(SET_IO_FLUSHER, 1, 0, 0, 0) == 0
    };
    if !done {
        return Err(std::io::Error::last_os_error()).context("raise the disk's priority");
    }
    Ok(())
}

struct Server {
    drive: Drive,
    store: Store,
    /// Pending requests in order: end, tag, result.
    due: VecDeque<(u64, u16, i32)>,
    shared: Arc<Shared>,
}

impl Server {
    fn serve(&mut self, queue: &mut Queue) -> Result<()> {
        let mut came = Vec::new();
        loop {
            let now = now_ns();
            while let Some((_, tag, result)) = self.due.front().filter(|due| due.0 <= now) {
                queue.commit(*tag, *result)?;
                self.due.pop_front();
            }
            let next = self
                .due
                .front()
                .map(|due| Duration::from_nanos(due.0 - now));
            queue.wait(next, &mut came)?;
            let now = now_ns();
            for tag in came.drain(..) {
                self.take(queue, tag, now);
            }
            self.update_counts();
        }
    }

    /// Reads or writes now, and schedules the answer. Answers come in the order of requests.
    fn take(&mut self, queue: &mut Queue, tag: u16, now: u64) {
        let (request, buffer) = queue.request(tag);
        let extent = Extent {
            start: request.start_byte(),
            bytes: request.bytes(),
        };
        let length = extent.bytes as usize;
        let done = match (request.operation(), buffer.get_mut(..length)) {
            (READ, Some(buffer)) => {
                count(&self.shared.reads);
                let read = self.store.read(extent.start, buffer);
                read.map(|()| Command::Read(extent))
            }
            (WRITE, Some(buffer)) => {
                count(&self.shared.writes);
                let written = self.store.write(extent.start, buffer);
                written.map(|()| Command::Write(extent))
            }
            (FLUSH, _) => {
                count(&self.shared.flushes);
                Ok(Command::Flush)
            }
            (_, _) => Err(Refusal::Beyond),
        };
        let (end, result) = match done {
            Ok(command) => {
                let bytes = i32::try_from(length).expect("a request fits into its buffer");
                (self.drive.serve(now, command), bytes)
            }
            Err(why) => {
                count(&self.shared.refused);
                let code = match why {
                    Refusal::Beyond => libc::EIO,
                    Refusal::Full => libc::ENOSPC,
                };
                (now, -code)
            }
        };
        self.due.push_back((end, tag, result));
    }

    fn update_counts(&self) {
        let Shared {
            seeks,
            hits,
            busy_ns,
            deepest,
            kept_bytes,
            ..
        } = &*self.shared;
        let set = |place: &AtomicU64, value| place.store(value, Ordering::Relaxed);
        set(seeks, self.drive.work.seeks);
        set(hits, self.drive.work.hits);
        set(busy_ns, self.drive.work.busy_ns);
        set(kept_bytes, self.store.kept_bytes());
        deepest.fetch_max(self.due.len() as u64, Ordering::Relaxed);
    }
}

fn count(place: &AtomicU64) {
    place.fetch_add(1, Ordering::Relaxed);
}

/// The guest's clock, which also determines the platter's angle.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
