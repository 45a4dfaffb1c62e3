//! The thread that serves a disk: requests in, results out when the drive would have them.

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

/// Priority among real-time tasks: a drive waits for nobody's CPU.
const PRIORITY: i32 = 50;

/// `PR_SET_IO_FLUSHER` of `include/uapi/linux/prctl.h`, which libc has not.
const SET_IO_FLUSHER: libc::c_int = 57;

/// Blocks that file systems have; a drive is a whole number of them.
const BLOCK: u64 = 4096;

/// What the thread tells about itself.
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
        let of = |one: &AtomicU64| one.load(Ordering::Relaxed);
        Counts {
            reads: of(&self.reads),
            writes: of(&self.writes),
            flushes: of(&self.flushes),
            seeks: of(&self.seeks),
            hits: of(&self.hits),
            busy_ns: of(&self.busy_ns),
            deepest: of(&self.deepest),
            kept_bytes: of(&self.kept_bytes),
            refused: of(&self.refused),
        }
    }
}

/// The block device and what is told of it.
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
        let mut queue = match own_priority().and_then(|()| Queue::open(device, depth)) {
            Ok(queue) => queue,
            Err(why) => {
                let _ = ready.send(Err(why));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        // The disk is gone then: whoever waits for it learns that from the kernel.
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

/// Makes the thread one that nothing keeps waiting, and whose own memory is never found by writing to this very disk
/// (`PR_SET_IO_FLUSHER`).
#[expect(unsafe_code, reason = "neither call has a safe form for one thread")]
fn own_priority() -> Result<()> {
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
    /// Requests under way in their order, each with its end and result.
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
            self.tell();
        }
    }

    /// Reads or writes now, and answers when the drive would have: the order is the same.
    fn take(&mut self, queue: &mut Queue, tag: u16, now: u64) {
        let (asked, buffer) = queue.request(tag);
        let extent = Extent {
            start: asked.start_byte(),
            bytes: asked.bytes(),
        };
        let length = extent.bytes as usize;
        let done = match (asked.operation(), buffer.get_mut(..length)) {
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

    fn tell(&self) {
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

/// The guest's clock: it also says where the platter is.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
