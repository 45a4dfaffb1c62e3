//! The kernel inside a bootable image, unpacked on the host.
//!
//! An emulated guest takes 1.5 s to unpack a kernel that was packed by zstd; the host takes a third of a second, once.
//! QEMU starts an unpacked kernel at its PVH entry, which the bootable image reaches too once it has unpacked itself
//! (docs/system/i386/pvh in QEMU's sources, Documentation/arch/x86/pvh in the kernel's).

use std::path::PathBuf;

use anyhow::{Context, Result};
use base::input::file;
use profiler::bzimage;

use crate::cache;
use crate::cache::Cache;
use crate::cache::about::{About, Part};
use crate::kernel::{IMAGE_BYTES, Kernel};
use crate::task::Task;

const KIND: &str = "vmlinux";
const FILE: &str = "vmlinux";

/// The unpacked kernel in the cache; `None` where it has no PVH entry or cannot be unpacked. Such a kernel boots from its
/// bootable image.
pub fn unpack(cache: &Cache, kernel: &Kernel, task: Task<'_>) -> Result<Option<PathBuf>> {
    if let Some(entry) = cache.entry(KIND, &kernel.sha256)? {
        return Ok(Some(entry.join(FILE)));
    }
    task.tell("unpacking the kernel", None);
    let path = &kernel.vmlinuz;
    let image =
        file::read(path, IMAGE_BYTES).with_context(|| format!("cannot read {}", path.display()))?;
    let Ok(vmlinux) = bzimage::unpack(&image) else {
        return Ok(None);
    };
    if !bzimage::has_pvh_entry(&vmlinux) {
        return Ok(None);
    }
    let staging = cache.staging(vmlinux.len() as u64)?;
    cache::write(&staging.path.join(FILE), &vmlinux).map_err(|why| cache.cannot_write(&why))?;
    let packed = Part {
        name: "kernel".into(),
        version: kernel.release.clone(),
        sha256: kernel.sha256.clone(),
    };
    let source = format!("kernel {}", kernel.release);
    About::now(&kernel.release, source, vec![packed]).write(cache, &staging.path)?;
    Ok(Some(cache.keep(&staging, KIND, &kernel.sha256)?.join(FILE)))
}
