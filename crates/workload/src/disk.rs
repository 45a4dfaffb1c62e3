//! A disk that a workload has to itself: a file system on it, and nothing of it in memory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::context::WorkloadContext;
use crate::tool::Tool;

/// What makes and mounts a file system.
pub(crate) const PACKAGES: [&str; 2] = ["e2fsprogs", "mount"];

/// What the file system itself needs.
pub(crate) const SPARE_BYTES: u64 = 128 << 20;

/// Where the disk is mounted, below the context.
const PLACE: &str = "disk";

/// Where the disk is, once it is mounted.
pub(crate) fn place(context: &WorkloadContext) -> PathBuf {
    context.dir.join(PLACE)
}

/// Makes a file system on the workload's disk and mounts it.
pub(crate) fn mount(context: &WorkloadContext) -> Result<PathBuf> {
    let disk = context.disk.as_ref();
    let disk = disk.context("no disk for the workload alone (has the kernel virtio_blk?)")?;
    let place = context.make_dir(PLACE)?;
    let (disk, mount) = (disk.to_string_lossy(), place.to_string_lossy());
    let limit = Duration::from_secs(120);
    // Everything is laid out now: what a lazy file system does later would be part of the figures.
    let eager = "lazy_itable_init=0,lazy_journal_init=0";
    Tool::new(&["mkfs.ext4", "-q", "-F", "-E", eager, &disk], limit).set_up()?;
    Tool::new(&["mount", "-t", "ext4", &disk, &mount], limit).set_up()?;
    Ok(place)
}

/// Writes back and forgets what the kernel holds of files, so that reading is reading from the disk.
pub(crate) fn forget_cached() -> Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("drop the page cache")
}
