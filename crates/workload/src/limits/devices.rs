//! Block devices in memory (`null_blk`), made through configfs. Each stores a different block.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use crate::Wrong;
use crate::context::WorkloadContext;
use crate::limits::growth::{Grown, Growth, all_work};

/// Mount point of configfs.
const CONFIGFS: &str = "/sys/kernel/config";

/// Size of a device; the smallest possible.
const DEVICE_MIB: u64 = 1;

/// Size of reads and writes.
const BLOCK_BYTES: usize = 4096;

pub(super) fn reach(_: &WorkloadContext, growth: &mut Growth<'_>, wanted: u64) -> Result<Grown> {
    let mut devices = Vec::with_capacity(wanted as usize);
    let grown = growth.grow("devices", wanted, &mut |number| {
        let device = Device::make(&format!("nullb{}", number + 1), DEVICE_MIB)?;
        device.write_block(0, &block(number))?;
        devices.push(device);
        Ok(())
    })?;
    let mut working = 0;
    for (number, device) in devices.iter().enumerate() {
        working += u64::from(device.read_block(0)? == block(number as u64));
        growth.go_on(0)?;
    }
    all_work(&grown, working)?;
    Ok(grown)
}

/// A block whose content depends on `number`.
pub(super) fn block(number: u64) -> [u8; BLOCK_BYTES] {
    let mut block = [0x5a; BLOCK_BYTES];
    block[..8].copy_from_slice(&number.to_le_bytes());
    block
}

/// A memory-backed block device; removed when it is dropped.
#[derive(Debug)]
pub(super) struct Device {
    config: PathBuf,
    pub(super) path: PathBuf,
}

impl Device {
    /// Makes a device with this name, which must be unused.
    pub(super) fn make(name: &str, size_mib: u64) -> Result<Self> {
        mount_configfs()?;
        let config = Path::new(CONFIGFS).join("nullb").join(name);
        fs::create_dir(&config).context("make a block device (has the kernel null_blk?)")?;
        let mut device = Self {
            path: PathBuf::new(),
            config,
        };
        let size = size_mib.to_string();
        for (file, value) in [
            ("size", size.as_str()),
            ("memory_backed", "1"),
            ("power", "1"),
        ] {
            let file = device.config.join(file);
            fs::write(&file, value)
                .with_context(|| format!("write {value} to {}", file.display()))?;
        }
        let index =
            fs::read_to_string(device.config.join("index")).context("read a device's index")?;
        // Kernels before 6.2 name the device by its index, later ones by its directory.
        let paths = [
            format!("/dev/{name}"),
            format!("/dev/nullb{}", index.trim()),
        ];
        match paths.iter().find(|path| Path::new(path).exists()) {
            Some(path) => device.path = path.into(),
            None => bail!("no block device {} or {}", paths[0], paths[1]),
        }
        Ok(device)
    }

    /// Writes a block at an offset. Closing the device drops it from the page cache.
    pub(super) fn write_block(&self, offset: u64, block: &[u8]) -> Result<()> {
        let file = OpenOptions::new().write(true).open(&self.path);
        let file = file.with_context(|| format!("open {}", self.path.display()))?;
        let written = file
            .write_all_at(block, offset)
            .and_then(|()| file.sync_all());
        written.with_context(|| format!("write to {} at {offset}", self.path.display()))
    }

    /// Reads the block at an offset.
    pub(super) fn read_block(&self, offset: u64) -> Result<[u8; BLOCK_BYTES]> {
        let mut block = [0; BLOCK_BYTES];
        let read = File::open(&self.path).and_then(|file| file.read_exact_at(&mut block, offset));
        match read {
            Ok(()) => Ok(block),
            Err(why) => {
                let what = format!("read {} at {offset}: {why}", self.path.display());
                Err(Wrong(what).into())
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = fs::write(self.config.join("power"), "0");
        let _ = fs::remove_dir(&self.config);
    }
}

fn mount_configfs() -> io::Result<()> {
    if Path::new(CONFIGFS).join("nullb").exists() {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    match mount("configfs", CONFIGFS, "configfs", flags, None) {
        Ok(()) | Err(Errno::BUSY) => Ok(()),
        Err(why) => Err(why.into()),
    }
}
