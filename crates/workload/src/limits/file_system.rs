//! A file system on a device that keeps only what is written: blocks past 2 TiB are written and read back, on the device
//! itself, in a file at an offset past 2 TiB, and in directories, which ext4 of 6.1 spreads over the device with their inodes (7.2
//! does not, and data of small files both keep together). So that data lies past 2 TiB in a file of either, the first file is
//! made where ext4 is told to look for an inode (`inode_goal`). How high a file and a directory lay are facts, not figures.

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

/// Directories, which ext4 spreads over the device, with a file each.
const DIRECTORIES: u64 = 64;

/// Where on the device the first file is to be: 15/16 of its size from the front.
const FAR_SIXTEENTHS: u64 = 15;

/// Blocks of the file system, in bytes.
const BLOCK_BYTES: u64 = 4096;

const TIB: f64 = (1_u64 << 40) as f64;

pub(super) fn reach(
    context: &WorkloadContext,
    growth: &mut Growth<'_>,
    wanted: u64,
) -> Result<Grown> {
    let began = Instant::now();
    let made = Device::make("bakeoff-large", wanted >> 20);
    let (device, refused) = match made {
        Ok(device) => (device, None),
        Err(why) => {
            return Ok(grown(
                wanted,
                0,
                (Duration::ZERO, Highest::default()),
                Some(format!("{why:#}")),
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
    // Before all others: small files that follow each other have their data near the first one's.
    let goal = size.f_files / 16 * FAR_SIXTEENTHS;
    make_far(&mounted.0, &device, goal)?;
    use_it(&mounted.0, wanted, growth)?;
    let took = began.elapsed();
    // After the time was taken: asking is 65 programs.
    let highest = Highest::ask(&mounted.0, growth)?;
    let bytes = size.f_blocks * size.f_frsize;
    // Its own tables take a part.
    if (bytes as f64) < wanted as f64 * 0.9 {
        let what = format!("a file system of {bytes} bytes on a device of {wanted}");
        return Err(Wrong(what).into());
    }
    Ok(grown(wanted, wanted, (took, highest), refused))
}

/// Places on the device, in bytes, that were read back there.
#[derive(Debug, Clone, Copy, Default)]
struct Highest {
    /// The data of the first file.
    file: u64,
    /// The highest of the directories in which a file was found.
    directory: u64,
}

impl Highest {
    /// Asks where the files and directories lie that were made and found again in a file system.
    fn ask(place: &Path, growth: &mut Growth<'_>) -> Result<Self> {
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
    (took, highest): (Duration, Highest),
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

/// Makes a file near an inode of that number, and reads it back.
fn make_far(place: &Path, device: &Device, goal: u64) -> Result<()> {
    let name = device.path.file_name().unwrap_or_default();
    let tunable = Path::new("/sys/fs/ext4").join(name).join("inode_goal");
    let tell = |goal: u64| {
        fs::write(&tunable, goal.to_string())
            .with_context(|| format!("write {goal} to {}", tunable.display()))
    };
    tell(goal)?;
    let path = far_path(place);
    let file = File::create(&path).context("make a file")?;
    file.write_all_at(&block(goal), 0).context("write a file")?;
    file.sync_all().context("write a file back")?;
    tell(0)?;
    forget_cached()?;
    check_block(&path, 0, goal)
}

/// Writes and reads files: one at the end of what a file may be, and one in each directory.
fn use_it(place: &Path, size: u64, growth: &mut Growth<'_>) -> Result<()> {
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
    let want = block(number);
    let mut read = want;
    read.fill(0);
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let ended = file.read_exact_at(&mut read, offset);
    if ended.is_err() || read != want {
        let what = format!("wrong content at {offset} of {}", path.display());
        return Err(Wrong(what).into());
    }
    Ok(())
}

/// Where the first block of a file or directory lies on the device, in bytes, as filefrag(8) says.
fn place_on_device(path: &Path) -> Result<u64> {
    let shown = path.to_string_lossy();
    let said = Tool::new(&["filefrag", "-v", &shown], Duration::from_secs(60)).set_up()?;
    let first = first_block(&said.out);
    let first =
        first.with_context(|| format!("filefrag says no place of {shown}: {}", said.out))?;
    Ok(first * BLOCK_BYTES)
}

/// `   0:        0..       0:      34816..     34816:      1:             last,eof`
fn first_block(said: &str) -> Option<u64> {
    let line = said
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
        // What a device in memory need not keep is not written: unused tables, and a journal of a gigabyte.
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
    fn the_place_of_a_file_is_read() {
        let said = "Filesystem type is: ef53\nFile size of x is 4096 (1 block of 4096 bytes)\n ext:     logical_offset:        \
                    physical_offset: length:   expected: flags:\n   0:        0..       0:  805306368.. 805306368:      1:             \
                    last,eof\nx: 1 extent found\n";
        assert_eq!(first_block(said), Some(805_306_368));
        assert_eq!(first_block("x: 0 extents found\n"), None);
    }
}
