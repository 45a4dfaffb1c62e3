//! A simulated drive: a block device whose requests take as long as on a drive with a given data sheet.
//!
//! ```text
//! kernel --ublk--> server thread: store (content), drive (time) --at its time--> kernel
//! ```
//! `drive` is a model in simulated time, `store` holds the content in memory, and `server` connects both with the clock. It
//! knows nothing of what is measured. Under counted instructions the guest's clock leaps while the thread sleeps, so a
//! seek takes guest time but no host time; what the thread itself executes takes both.

mod drive;
mod geometry;
mod server;
mod store;
mod ublk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use plan::SeekDisk;

use crate::disk::server::Shared;

/// A simulated drive, served as long as the process lives.
#[derive(Debug, Clone)]
pub struct Disk {
    path: PathBuf,
    shared: Arc<Shared>,
}

/// Statistics of a drive since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Requests to empty the write cache.
    pub flushes: u64,
    /// Moves of the head to another track.
    pub seeks: u64,
    /// Reads that the read-ahead served.
    pub hits: u64,
    /// Nanoseconds in which the head sought, waited for the platter, read or wrote.
    pub busy_ns: u64,
    /// Largest number of simultaneous requests.
    pub deepest: u64,
    /// Bytes of memory that hold its content.
    pub kept_bytes: u64,
    /// Requests that failed, for example because no memory was left.
    pub refused: u64,
}

impl Disk {
    /// Makes the block device and starts the thread that serves it. The kernel must have `ublk_drv`, loaded or built in.
    pub fn start(plan: &SeekDisk) -> Result<Self> {
        let (path, shared) = server::start(plan)?;
        Ok(Self { path, shared })
    }

    /// The block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its statistics so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

impl Counts {
    /// Statistics since `before`; levels are the present ones.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            flushes: self.flushes - before.flushes,
            seeks: self.seeks - before.seeks,
            hits: self.hits - before.hits,
            busy_ns: self.busy_ns - before.busy_ns,
            refused: self.refused - before.refused,
            deepest: self.deepest,
            kept_bytes: self.kept_bytes,
        }
    }
}
