//! A workload's separate disk: makes and mounts its file system, and drops the page cache.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use plan::FileSystem;

use crate::context::WorkloadContext;
use crate::tool::Tool;

/// Packages to make and mount a file system.
pub(crate) const PACKAGES: [&str; 2] = ["e2fsprogs", "mount"];

/// Space that the file system needs.
pub(crate) const SPARE_BYTES: u64 = 128 << 20;

/// Inodes for directories and the file system.
const SPARE_INODES: u64 = 4096;

/// Mount point, below the context's directory.
const PLACE: &str = "disk";

/// The mount point of the disk.
pub(crate) fn place(context: &WorkloadContext) -> PathBuf {
    context.dir.join(PLACE)
}

/// UUID and hash seed of the file system. ext4 places directories by the hash seed, so it is fixed.
const IDENTITY: &str = "6f3c1b52-8d0e-4a57-9c26-b1d2e5a4f708";

/// `IDENTITY` as an option of mkfs.xfs(8).
const IDENTITY_OF_XFS: &str = "uuid=6f3c1b52-8d0e-4a57-9c26-b1d2e5a4f708";

/// Makes the arm's file system on the whole disk, for this many files, and mounts it.
pub(crate) fn mount(context: &WorkloadContext, files: u64) -> Result<PathBuf> {
    let disk = context.disk.as_ref();
    let disk = disk.context("no disk for the workload alone (has the kernel virtio_blk?)")?;
    let place = context.make_dir(PLACE)?;
    let (disk, mount) = (disk.to_string_lossy(), place.to_string_lossy());
    let limit = Duration::from_secs(120);
    // Lazy initialisation would run during the measurement.
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

/// Writes back and drops the page cache.
pub(crate) fn forget_cached() -> Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("drop the page cache")
}
