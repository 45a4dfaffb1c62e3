//! A large file system on a sparse device. Blocks past 2 TiB are written and read back: on the
//! device, in a file at an offset past 2 TiB, and in files and directories.
//!
//! ext4 of 6.1 spreads directories and their inodes over the device; 7.2 does not. Both keep the
//! data of small files together. So the first file is made with `inode_goal` set to a high inode,
//! which places its data past 2 TiB on either kernel. Positions of files and directories are facts,
//! not figures.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::mount::{UnmountFlags, unmount};

use crate::Wrong;
use crate::context::WorkloadContext;
use crate::disk::forget_cached;
use crate::limits::devices::{Device, block};
use crate::limits::growth::{Grown, Growth};
use crate::tool::Tool;

/// Number of directories, each with a file.
const DIRECTORIES: u64 = 64;

/// Position of the first file on the device, in sixteenths of its size.
const FAR_SIXTEENTHS: u64 = 15;

/// Block size of the file system.
const BLOCK_BYTES: u64 = 4096;

const TIB: f64 = (1_u64 << 40) as f64;

pub(super) fn reach(
    context: &WorkloadContext,
    growth: &mut Growth<'_>,
    wanted: u64,
) -> Result<Grown> {
    let began = Instant::now();
    let device = match Device::make("bakeoff-large", wanted >> 20) {
        Ok(device) => device,
        Err(why) => {
            let refused = Some(format!("{why:#}"));
            return Ok(grown(
                wanted,
                0,
                Duration::ZERO,
                Highest::default(),
                refused,
            ));
        }
    };
    let last = wanted - BLOCK_BYTES;
    device.write_block(last, &block(last))?;
    if device.read_block(last)? != block(last) {
        return Err(Wrong(format!("the device forgot its block at {last}")).into());
    }
    let mounted = Mounted::make(&device, context)?;
    growth.go_on(1)?;
    let size = rustix::fs::statvfs(&mounted.0).context("ask for the size of the file system")?;
    // Before other files, because data of small files is placed near that of the first one.
    let goal = size.f_files / 16 * FAR_SIXTEENTHS;
    make_far(&mounted.0, &device, goal)?;
    check_files(&mounted.0, wanted, growth)?;
    let took = began.elapsed();
    // Not part of the time, because it runs 65 programs.
    let highest = Highest::read(&mounted.0, growth)?;
    let bytes = size.f_blocks * size.f_frsize;
    // The tables of the file system take some space.
    if (bytes as f64) < wanted as f64 * 0.9 {
        let what = format!("a file system of {bytes} bytes on a device of {wanted}");
        return Err(Wrong(what).into());
    }
    Ok(grown(wanted, wanted, took, highest, None))
}

/// Highest positions on the device that were read back, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Highest {
    /// Data of the first file.
    file: u64,
    /// The highest directory.
    directory: u64,
}

impl Highest {
    /// Reads the positions of files and directories in a file system.
    fn read(place: &Path, growth: &mut Growth<'_>) -> Result<Self> {
        let mut directory = 0;
        for number in 0..DIRECTORIES {
            directory = directory.max(place_on_device(&directory_path(place, number))?);
            growth.go_on(0)?;
        }
        Ok(Self {
            file: place_on_device(&far_path(place))?,
            directory,
        })
    }
}

fn far_path(place: &Path) -> PathBuf {
    place.join("far")
}

fn directory_path(place: &Path, number: u64) -> PathBuf {
    place.join(format!("d{number}"))
}

fn grown(
    wanted: u64,
    reached: u64,
    took: Duration,
    highest: Highest,
    refused: Option<String>,
) -> Grown {
    let in_tib = |bytes: u64| format!("{:.2} TiB", bytes as f64 / TIB);
    Grown {
        kind: "file-system",
        unit: "TiB",
        reached: reached as f64 / TIB,
        wanted: wanted as f64 / TIB,
        refused,
        points: Vec::new(),
        costs: vec![("time", "ms", took.as_secs_f64() * 1e3)],
        facts: vec![
            ("highest-file-read-back", in_tib(highest.file)),
            ("highest-directory-read-back", in_tib(highest.directory)),
        ],
    }
}

/// Makes a file near the inode `goal`, and reads it back.
fn make_far(place: &Path, device: &Device, goal: u64) -> Result<()> {
    let name = device.path.file_name().unwrap_or_default();
    let tunable = Path::new("/sys/fs/ext4").join(name).join("inode_goal");
    let set_goal = |goal: u64| {
        fs::write(&tunable, goal.to_string())
            .with_context(|| format!("write {goal} to {}", tunable.display()))
    };
    set_goal(goal)?;
    let path = far_path(place);
    let file = File::create(&path).context("make a file")?;
    file.write_all_at(&block(goal), 0).context("write a file")?;
    file.sync_all().context("write a file back")?;
    set_goal(0)?;
    forget_cached()?;
    check_block(&path, 0, goal)
}

/// Writes and reads a file at its largest offset, and a file in each directory.
fn check_files(place: &Path, size: u64, growth: &mut Growth<'_>) -> Result<()> {
    let far = size - 2 * BLOCK_BYTES;
    let sparse = place.join("sparse");
    let file = File::create(&sparse).context("make a sparse file")?;
    file.write_all_at(&block(far), far)
        .context("write far into a file")?;
    file.sync_all().context("write a file back")?;
    let directory = |number: u64| directory_path(place, number);
    let path = |number: u64| directory(number).join("file");
    for number in 0..DIRECTORIES {
        fs::create_dir(directory(number)).context("make a directory")?;
        let file = File::create(path(number)).context("make a file")?;
        file.write_all_at(&block(number), 0)
            .context("write a file")?;
        file.sync_all().context("write a file back")?;
    }
    forget_cached()?;
    check_block(&sparse, far, far)?;
    for number in 0..DIRECTORIES {
        check_block(&path(number), 0, number)?;
        growth.go_on(0)?;
    }
    Ok(())
}

fn check_block(path: &Path, offset: u64, number: u64) -> Result<()> {
    let expected = block(number);
    let mut read = expected;
    read.fill(0);
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let ended = file.read_exact_at(&mut read, offset);
    if ended.is_err() || read != expected {
        let what = format!("wrong content at {offset} of {}", path.display());
        return Err(Wrong(what).into());
    }
    Ok(())
}

/// Position of the first block of a file or directory on the device in bytes, from filefrag(8).
fn place_on_device(path: &Path) -> Result<u64> {
    let shown = path.to_string_lossy();
    let output = Tool::new(&["filefrag", "-v", &shown], Duration::from_secs(60)).set_up()?;
    let first = first_block(&output.stdout);
    let first =
        first.with_context(|| format!("filefrag says no place of {shown}: {}", output.stdout))?;
    Ok(first * BLOCK_BYTES)
}

/// `   0:        0..       0:      34816..     34816:      1:             last,eof`
fn first_block(output: &str) -> Option<u64> {
    let line = output
        .lines()
        .find_map(|line| line.trim().strip_prefix("0:"))?;
    let (_, rest) = line.split_once(':')?;
    rest.split("..").next()?.trim().parse().ok()
}

/// A file system that is mounted until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn make(device: &Device, context: &WorkloadContext) -> Result<Self> {
        let place = context.make_dir("large")?;
        let (disk, mount) = (device.path.to_string_lossy(), place.to_string_lossy());
        let limit = Duration::from_secs(600);
        // To save memory, unused tables and a large journal are not written.
        let extended = "lazy_itable_init=1,nodiscard";
        let make = [
            "mkfs.ext4",
            "-q",
            "-F",
            "-b",
            "4096",
            "-J",
            "size=16",
            "-E",
            extended,
            "-N",
            "1000000",
            &disk,
        ];
        Tool::new(&make, limit).set_up()?;
        let options = ["mount", "-t", "ext4", "-o", "noinit_itable", &disk, &mount];
        Tool::new(&options, limit).set_up()?;
        Ok(Self(place))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_of_a_file_is_parsed() {
        let output = "Filesystem type is: ef53\nFile size of x is 4096 (1 block of 4096 bytes)\n ext:     logical_offset:        \
                    physical_offset: length:   expected: flags:\n   0:        0..       0:  805306368.. 805306368:      1:             \
                    last,eof\nx: 1 extent found\n";
        assert_eq!(first_block(output), Some(805_306_368));
        assert_eq!(first_block("x: 0 extents found\n"), None);
    }
}
