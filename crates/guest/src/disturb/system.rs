//! Disturbs the system: fills the file system, takes a CPU offline, steps the clock.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{statfs, statvfs};
use rustix::mount::{MountFlags, mount_remount};
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use super::{Impact, Ongoing, Site};

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS: i64 = 0x0102_1994;

/// A file that takes the remaining space.
const FILLER: &str = ".disturbance";

/// Bytes of one write.
const PIECE: [u8; 4096] = [0; 4096];

/// Most writes in one tick.
const PIECES: usize = 256;

struct DiskFull {
    dir: PathBuf,
    whole_bytes: u64,
    filler: File,
    refused: u64,
}

/// Shrinks the file system to its content: filling it would take the guest's memory, which is another disturbance.
pub(super) fn begin_disk_full(site: &Site) -> Result<Box<dyn Ongoing>> {
    let dir = site.dir.clone();
    let kind = statfs(&dir).context("look at the servers' file system")?;
    if kind.f_type != TMPFS {
        bail!("the servers' data is not in memory: {}", dir.display());
    }
    let filler = File::create(dir.join(FILLER)).context("make a file beside the servers' data")?;
    let room = statvfs(&dir)?;
    let whole_bytes = room.f_blocks * room.f_frsize;
    let used = (room.f_blocks - room.f_bfree) * room.f_frsize;
    let fits = |more: u64| resize(&dir, used + more);
    // Servers may write meanwhile.
    fits(0)
        .or_else(|_| fits(64 << 10))
        .context("shrink the servers' file system")?;
    let mut full = DiskFull {
        dir,
        whole_bytes,
        filler,
        refused: 0,
    };
    full.tick(site);
    Ok(Box::new(full))
}

fn resize(dir: &Path, bytes: u64) -> io::Result<()> {
    let size = CString::new(format!("size={bytes}"))?;
    Ok(mount_remount(dir, MountFlags::NOSUID, &*size)?)
}

impl Ongoing for DiskFull {
    /// Takes space that has become free, and counts refused writes.
    fn tick(&mut self, _site: &Site) {
        for _ in 0..PIECES {
            if let Err(why) = self.filler.write_all(&PIECE) {
                self.refused += u64::from(why.kind() == io::ErrorKind::StorageFull);
                return;
            }
        }
    }

    fn end(&mut self, _site: &Site) -> Result<Impact> {
        let removed = fs::remove_file(self.dir.join(FILLER));
        resize(&self.dir, self.whole_bytes)
            .context("give the servers' file system its room back")?;
        removed.context("remove what filled the servers' file system")?;
        Ok(Impact::new("refused-writes", self.refused))
    }
}

struct CpuOffline {
    file: PathBuf,
    was_off: bool,
}

pub(super) fn begin_cpu_offline(cpu: u32) -> Result<Box<dyn Ongoing>> {
    let file = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
    let write = fs::write(&file, "0");
    write.with_context(|| format!("turn CPU {cpu} off: {}", file.display()))?;
    let was_off = fs::read_to_string(&file).is_ok_and(|text| text.trim() == "0");
    Ok(Box::new(CpuOffline { file, was_off }))
}

impl Ongoing for CpuOffline {
    fn end(&mut self, _site: &Site) -> Result<Impact> {
        let write = fs::write(&self.file, "1");
        write.with_context(|| format!("turn a CPU on again: {}", self.file.display()))?;
        Ok(Impact::new("cpus-off", u64::from(self.was_off)))
    }
}

struct ClockStep {
    /// Time of day minus monotonic time, before the step.
    offset_ns: i128,
    stepped_ms: u64,
}

pub(super) fn begin_clock_step(step_ms: i64) -> Result<Box<dyn Ongoing>> {
    let offset_ns = offset_ns();
    set_offset(offset_ns + i128::from(step_ms) * 1_000_000).context("set the time of day")?;
    let stepped_ns = (self::offset_ns() - offset_ns).unsigned_abs();
    Ok(Box::new(ClockStep {
        offset_ns,
        // Rounded, because the two clocks are read one after the other.
        stepped_ms: ((stepped_ns + 500_000) / 1_000_000) as u64,
    }))
}

impl Ongoing for ClockStep {
    fn end(&mut self, _site: &Site) -> Result<Impact> {
        set_offset(self.offset_ns).context("set the time of day back")?;
        Ok(Impact::new("stepped-ms", self.stepped_ms))
    }
}

fn ns(time: Timespec) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

fn offset_ns() -> i128 {
    ns(clock_gettime(ClockId::Realtime)) - ns(clock_gettime(ClockId::Monotonic))
}

fn set_offset(offset_ns: i128) -> Result<()> {
    let now = ns(clock_gettime(ClockId::Monotonic)) + offset_ns;
    let time = Timespec {
        tv_sec: i64::try_from(now.div_euclid(1_000_000_000))?,
        tv_nsec: i64::try_from(now.rem_euclid(1_000_000_000))?,
    };
    Ok(clock_settime(ClockId::Realtime, time)?)
}
