//! A disk with seeks: a block device whose requests take as long as a drive of a data sheet takes.
//!
//! ```text
//! kernel --ublk--> server thread: store (content), drive (time) --at its time--> kernel
//! ```
//! `drive` is a model in simulated time and `store` a piece of memory; `server` joins them with the clock. It never knows
//! what is measured. Under counted instructions the guest's clock leaps while the thread sleeps, so that a seek takes the
//! guest's time and none of the host's; what the thread itself executes takes both.

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

/// A disk that is being served, as long as the process lives.
#[derive(Debug, Clone)]
pub struct Disk {
    path: PathBuf,
    shared: Arc<Shared>,
}

/// What a disk has done since it was there.
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
    /// Reads that its read-ahead had, or was about to have.
    pub hits: u64,
    /// Nanoseconds in which the head sought, waited for the platter, read or wrote.
    pub busy_ns: u64,
    /// Most requests that it had at once.
    pub deepest: u64,
    /// Bytes of memory that it keeps.
    pub kept_bytes: u64,
    /// Writes that found no memory: they failed.
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

    /// What it has done.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

impl Counts {
    /// What was done since `before`; levels are those of now.
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
