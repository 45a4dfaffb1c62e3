//! The workload's own disk: the I/O scheduler that an arm asks for.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Sets a disk's I/O scheduler; an empty name leaves the kernel's choice.
pub(crate) fn schedule(disk: Option<&Path>, scheduler: &str) -> Result<()> {
    if scheduler.is_empty() {
        return Ok(());
    }
    let name = disk.and_then(Path::file_name);
    let name = name.context("an I/O scheduler for a disk that is not there")?;
    let file = Path::new("/sys/block").join(name).join("queue/scheduler");
    if fs::write(&file, scheduler).is_err() {
        let known = fs::read_to_string(&file).unwrap_or_default();
        bail!(
            "this kernel has no I/O scheduler {scheduler} (choose one of these: {})",
            known.trim().replace(['[', ']'], "")
        );
    }
    Ok(())
}
