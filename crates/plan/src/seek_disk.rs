//! `disk` of `[machine]`: a simulated drive with a head and platters, in place of the host's disk.

use std::time::Duration;

use base::input::units;
use serde::{Deserialize, Serialize};

use crate::fields::Fields;
use crate::machine::{MachineKind, set};

/// A drive, described as in a data sheet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeekDisk {
    /// Its size.
    pub bytes: u64,
    /// Most data that can be written to it. It is stored in the guest's memory, allocated on demand; zeros take none.
    pub store_bytes: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Time of a seek to the next track, or of a head switch.
    pub track_to_track: Duration,
    /// Mean time of a seek between two random tracks.
    pub average_seek: Duration,
    /// Time of a seek from the first track to the last.
    pub full_stroke: Duration,
    /// Media rate on the outermost track, where the drive begins.
    pub outer_bytes_per_s: u64,
    /// Media rate on the innermost track, where it ends.
    pub inner_bytes_per_s: u64,
    /// Rate between the drive's memory and the host.
    pub interface_bytes_per_s: u64,
    /// Bytes that it reads ahead after a read.
    pub read_ahead_bytes: u64,
    /// Size of its write-back cache; 0 if each write waits for the platter.
    pub write_cache_bytes: u64,
    /// Queue depth; commands are executed in order.
    pub depth: u16,
}

impl Default for SeekDisk {
    /// An ATA drive of 2003 with 7200 rpm: Hitachi's Deskstar 7K250 of 80 GB, which has no command queueing.
    fn default() -> Self {
        Self {
            bytes: 80_000_000_000,
            store_bytes: 512 << 20,
            rpm: 7200,
            track_to_track: Duration::from_micros(1100),
            average_seek: Duration::from_micros(8500),
            full_stroke: Duration::from_micros(15_100),
            outer_bytes_per_s: 61_400_000,
            inner_bytes_per_s: 29_700_000,
            interface_bytes_per_s: 100_000_000,
            read_ahead_bytes: 2 << 20,
            write_cache_bytes: 2 << 20,
            depth: 1,
        }
    }
}

impl SeekDisk {
    /// Description in one line.
    pub fn words(&self) -> String {
        let ms = |time: Duration| units::significant(time.as_secs_f64() * 1e3, 3);
        let mb = |bytes: u64| units::significant(bytes as f64 / 1e6, 3);
        format!(
            "{} GB, {} rpm, seeks {} / {} / {} ms (track to track, average, full stroke), {} to {} MB/s (outer to inner track), \
             {} MB/s interface, read-ahead {}, write cache {}, {} at once; keeps {} in the guest's memory",
            units::significant(self.bytes as f64 / 1e9, 3),
            self.rpm,
            ms(self.track_to_track),
            ms(self.average_seek),
            ms(self.full_stroke),
            mb(self.outer_bytes_per_s),
            mb(self.inner_bytes_per_s),
            mb(self.interface_bytes_per_s),
            units::show_bytes(self.read_ahead_bytes),
            units::show_bytes(self.write_cache_bytes),
            self.depth,
            units::show_bytes(self.store_bytes),
        )
    }
}

/// Least memory of the guest besides the disk's data.
const LEFT_BYTES: u64 = 256 << 20;

/// Reads `disk`, and refuses the keys of the host's disk beside it.
pub(crate) fn read_seek_disk(
    fields: &Fields<'_>,
    kind: MachineKind,
    memory_bytes: u64,
) -> Option<SeekDisk> {
    let table = fields.table("disk")?;
    if kind != MachineKind::Qemu {
        let what = format!("disk of a machine of kind \"{}\"", kind.word());
        let remedy = "remove it, or write kind = \"qemu\": a disk with seeks is a guest's";
        fields.wrong("disk", what, remedy);
    }
    for key in ["disk_rate", "disk_requests"] {
        if fields.has(key) {
            let what = format!("{key} beside a disk with seeks");
            let remedy = "remove it, or remove disk: it is how slow the host's disk is made";
            fields.refuse(key, what, remedy);
        }
    }
    let mut disk = SeekDisk::default();
    if !table.has("kind") {
        table.missing("kind", "\"seek\"");
    }
    let _ = table.choice("kind", &[("seek", ())]);
    let most_bytes = memory_bytes
        .saturating_sub(LEFT_BYTES)
        .min(memory_bytes / 2);
    disk.store_bytes = disk.store_bytes.min(most_bytes);
    read_sizes(&table, &mut disk);
    read_times(&table, &mut disk);
    let depth = table.count("depth", 1..=256);
    set(&mut disk.depth, depth.map(|depth| depth as u16));
    check_seeks(&table, &disk);
    check_sizes(&table, &disk, memory_bytes);
    table.finish();
    Some(disk)
}

fn read_sizes(table: &Fields<'_>, disk: &mut SeekDisk) {
    const MB: u64 = 1_000_000;
    let binary: fn(u64) -> String = units::show_bytes;
    // As on a drive's label. Binary units would round the limits in messages, so that some were out of range.
    let decimal: fn(u64) -> String = units::show_decimal_bytes;
    let (size, store) = (&mut disk.bytes, &mut disk.store_bytes);
    let (outer, inner) = (&mut disk.outer_bytes_per_s, &mut disk.inner_bytes_per_s);
    let interface = &mut disk.interface_bytes_per_s;
    let (ahead, cache) = (&mut disk.read_ahead_bytes, &mut disk.write_cache_bytes);
    for (key, field, (least, most), show) in [
        ("size", size, (1000 * MB, 16_000_000 * MB), decimal),
        ("store", store, (16 << 20, 1 << 40), binary),
        ("outer_rate", outer, (MB, 2000 * MB), decimal),
        ("inner_rate", inner, (MB, 2000 * MB), decimal),
        ("interface_rate", interface, (MB, 10_000 * MB), decimal),
        ("read_ahead", ahead, (0, 1 << 30), binary),
        ("write_cache", cache, (0, 1 << 30), binary),
    ] {
        let Some(bytes) = table.read(key, units::bytes) else {
            continue;
        };
        if (least..=most).contains(&bytes) {
            *field = bytes;
        } else {
            let what = format!("{key} out of range: {}", show(bytes));
            let remedy = format!("write {} to {}", show(least), show(most));
            table.wrong(key, what, remedy);
        }
    }
    set(
        &mut disk.rpm,
        table.count("rpm", 1000..=30_000).map(|rpm| rpm as u32),
    );
}

fn read_times(table: &Fields<'_>, disk: &mut SeekDisk) {
    for (key, field) in [
        ("track_to_track", &mut disk.track_to_track),
        ("average_seek", &mut disk.average_seek),
        ("full_stroke", &mut disk.full_stroke),
    ] {
        let Some(time) = table.read(key, units::duration) else {
            continue;
        };
        let limits = Duration::from_micros(10)..=Duration::from_secs(1);
        if limits.contains(&time) {
            *field = time;
        } else {
            let what = format!("{key} out of range: {}", units::show_duration(time));
            table.wrong(key, what, "write 10us to 1s");
        }
    }
}

/// Refuses seek times for which there is no curve that grows with the distance, more and more slowly.
fn check_seeks(table: &Fields<'_>, disk: &SeekDisk) {
    let (least, most) = (disk.track_to_track, disk.full_stroke);
    if least >= most {
        let what = format!(
            "track_to_track not below full_stroke: {} and {}",
            units::show_duration(least),
            units::show_duration(most)
        );
        table.wrong("track_to_track", what, "write the shorter one here");
        return;
    }
    // Limits of the mean of the curve in `guest::disk::geometry`: a straight line, and a root that ends level.
    let span = most.saturating_sub(least);
    let (low, high) = (least + span / 3, least + span * 11 / 15);
    if !(low..=high).contains(&disk.average_seek) {
        let micros = |time: Duration| Duration::from_micros(time.as_micros() as u64);
        let show = |time| units::show_duration(micros(time));
        let what = format!(
            "no seek curve has this average between {} and {}: {}",
            show(least),
            show(most),
            show(disk.average_seek)
        );
        let remedy = format!(
            "write average_seek = {} to {}",
            show(low + Duration::from_micros(1)),
            show(high)
        );
        table.wrong("average_seek", what, remedy);
    }
}

fn check_sizes(table: &Fields<'_>, disk: &SeekDisk, memory_bytes: u64) {
    if disk.inner_bytes_per_s > disk.outer_bytes_per_s {
        let what = "inner_rate above outer_rate";
        let remedy = "write the smaller one as inner_rate: inner tracks are shorter";
        table.wrong("inner_rate", what, remedy);
    }
    if disk.store_bytes > memory_bytes.saturating_sub(LEFT_BYTES) {
        let what = format!(
            "store beyond memory: {} of {}",
            units::show_bytes(disk.store_bytes),
            units::show_bytes(memory_bytes)
        );
        let enough = units::show_bytes(disk.store_bytes.saturating_add(LEFT_BYTES));
        let remedy =
            format!("write memory = \"{enough}\" or more in [machine], or a smaller store");
        table.wrong("store", what, remedy);
    }
    if disk.store_bytes > disk.bytes {
        let what = "store larger than the disk";
        table.wrong("store", what, "write a smaller one, or a larger size");
    }
}

#[cfg(test)]
mod tests;
