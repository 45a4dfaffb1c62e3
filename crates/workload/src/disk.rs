//! A disk that a workload has to itself: a file system on it, and nothing of it in memory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use plan::FileSystem;

use crate::context::WorkloadContext;
use crate::tool::Tool;

/// What makes and mounts a file system.
pub(crate) const PACKAGES: [&str; 2] = ["e2fsprogs", "mount"];

/// What the file system itself needs.
pub(crate) const SPARE_BYTES: u64 = 128 << 20;

/// Inodes for directories and the file system's own.
const SPARE_INODES: u64 = 4096;

/// Where the disk is mounted, below the context.
const PLACE: &str = "disk";

/// Where the disk is, once it is mounted.
pub(crate) fn place(context: &WorkloadContext) -> PathBuf {
    context.dir.join(PLACE)
}

/// Identity of the file system and of its hashes, from which ext4 chooses where directories lie: the same in all trials.
const IDENTITY: &str = "6f3c1b52-8d0e-4a57-9c26-b1d2e5a4f708";

/// The same as mkfs.xfs(8) takes it.
const IDENTITY_OF_XFS: &str = "uuid=6f3c1b52-8d0e-4a57-9c26-b1d2e5a4f708";

/// Makes the arm's file system for so many files on the workload's disk, as large as the disk, and mounts it.
pub(crate) fn mount(context: &WorkloadContext, files: u64) -> Result<PathBuf> {
    let disk = context.disk.as_ref();
    let disk = disk.context("no disk for the workload alone (has the kernel virtio_blk?)")?;
    let place = context.make_dir(PLACE)?;
    let (disk, mount) = (disk.to_string_lossy(), place.to_string_lossy());
    let limit = Duration::from_secs(120);
    // Everything is laid out now: what a lazy file system does later would be part of the figures.
    let extended = format!("lazy_itable_init=0,lazy_journal_init=0,hash_seed={IDENTITY}");
    let inodes = (files + SPARE_INODES).to_string();
    let mut make = match context.file_system {
        FileSystem::Ext4 => vec![
            "mkfs.ext4",
            "-q",
            "-F",
            "-U",
            IDENTITY,
            "-N",
            &inodes,
            "-E",
            &extended,
        ],
        FileSystem::Xfs => vec!["mkfs.xfs", "-q", "-f", "-K", "-m", IDENTITY_OF_XFS],
        FileSystem::Btrfs => vec![
            "mkfs.btrfs",
            "-q",
            "-f",
            "-K",
            "-U",
            IDENTITY,
            "-m",
            "single",
        ],
        FileSystem::Jfs => vec!["mkfs.jfs", "-q"],
    };
    make.push(&disk);
    Tool::new(&make, limit).set_up()?;
    let kind = context.file_system.word();
    Tool::new(&["mount", "-t", kind, &disk, &mount], limit).set_up()?;
    Ok(place)
}

/// Writes back and forgets what the kernel holds of files, so that reading is reading from the disk.
pub(crate) fn forget_cached() -> Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("drop the page cache")
}
