//! `io-mix`: reads a large file while other tasks stream writes to the same disk.
//!
//! After `InfoWorld`'s report on 2.6's I/O schedulers of 30 January 2004: a 500 MB file beside
//! writes of 1 MB blocks; reading took 37 s under 2.4 and 3.9 s under 2.6. The arm sets the I/O
//! scheduler (`io_scheduler`, `queue`), the machine the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plan::Traits;
use plan::fields::Fields;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::data::stream;
use crate::disk;
use crate::figures::secondary;
use crate::options;
use crate::overview::{Key, Overview};
use crate::service::Service;
use crate::ticker::Ticker;
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, Wrong, check_stop};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "io-mix",
    |_| Traits::default(),
    Overview {
        summary: "reads a file from a disk of its own beside streams of writes",
        primary: "read-time",
        machine: &[
            Key::new(
                "clock",
                &["\"wall\""],
                "the host's disk takes the host's time; disk = { kind = \"seek\" } the guest's",
            ),
            Key::new(
                "disk_rate",
                &["\"60MiB\""],
                "bytes per second, reads and writes together",
            ),
            Key::new(
                "disk_requests",
                &["400"],
                "requests per second, reads and writes together",
            ),
        ],
        keys: &[
            Key::new("file", &["\"64MiB\""], "what is read"),
            Key::new("writers", &["1"], "streams of writes"),
            Key::new(
                "stream",
                &["\"256MiB\""],
                "what each writes, again and again",
            ),
            Key::new("read", &["\"4KiB\""], "what the reader asks for at a time"),
            Key::new("lead", &["\"5s\""], "time that they have before the read"),
            Key::new("limit", &["\"5m\""], ""),
        ],
    },
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Size of the file that is read; a multiple of `BLOCK`.
    file_bytes: u64,
    /// Number of writers; 0 measures reading alone.
    writers: u64,
    /// Bytes that each writer writes before it starts over; a multiple of `BLOCK`.
    #[serde(default = "stream_bytes")]
    stream_bytes: u64,
    /// Size of the reader's requests; at most `BLOCK`.
    #[serde(default = "block_bytes")]
    read_bytes: u64,
    /// Time between the start of the writers and the read.
    #[serde(default)]
    lead_ns: u64,
    limit_ns: u64,
}

/// Size of a block of reader and writers.
const BLOCK: usize = 1 << 20;

/// Default of `stream_bytes`.
fn stream_bytes() -> u64 {
    512 << 20
}

/// Default of `read_bytes`.
fn block_bytes() -> u64 {
    BLOCK as u64
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let sizes = (8 << 20)..=(1 << 40);
        let file_bytes = options::bytes(fields, "file", sizes.clone(), 500 << 20);
        let stream_bytes = options::bytes(fields, "stream", sizes, stream_bytes());
        let read_bytes = options::bytes(fields, "read", 512..=block_bytes(), block_bytes());
        let lead = read_lead(fields);
        let writers = options::count(fields, "writers", 0..=64, 1);
        let timing = options::limit(fields, Duration::from_secs(600));
        Some(Self {
            file_bytes: file_bytes?.next_multiple_of(BLOCK as u64),
            writers: writers?,
            stream_bytes: stream_bytes?.next_multiple_of(BLOCK as u64),
            read_bytes: read_bytes?,
            lead_ns: lead?.as_nanos() as u64,
            limit_ns: timing?.window.as_nanos() as u64,
        })
    }
}

fn read_lead(fields: &Fields<'_>) -> Option<Duration> {
    if !fields.takes("lead") {
        return Some(Duration::ZERO);
    }
    let lead = fields.read("lead", base::input::units::duration)?;
    if lead > MAX_LEAD {
        let what = format!(
            "lead out of range: {}",
            base::input::units::show_duration(lead)
        );
        fields.wrong("lead", what, "write 0s to 1h");
        return None;
    }
    Some(lead)
}

/// Longer than it takes to fill any page cache.
const MAX_LEAD: Duration = Duration::from_secs(3600);

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        disk::PACKAGES.into()
    }

    fn disk_bytes(&self) -> u64 {
        self.file_bytes + self.writers * self.stream_bytes + disk::SPARE_BYTES
    }

    fn timing(&self) -> Timing {
        Timing::from_ns(self.lead_ns, self.limit_ns)
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        let dir = disk::mount(context, 1 + self.writers)?;
        let file = dir.join(FILE);
        // File systems place directories apart on the disk, together with their files.
        fs::create_dir(dir.join(READ_DIR)).context("make a directory for the file")?;
        for number in 0..self.writers {
            fs::create_dir(dir.join(write_dir(number))).context("make a directory for a stream")?;
        }
        write_file(&file, self.file_bytes, context.seed)
            .with_context(|| format!("write {}", file.display()))?;
        Ok(Vec::new())
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let dir = disk::place(context);
        disk::forget_cached()?;
        let lead = Duration::from_nanos(self.lead_ns);
        let mut ticker = Ticker::begin(control.watcher, lead);
        let writing = Writing::default();
        let (read, written) = thread::scope(|scope| {
            let writers: Vec<_> = (0..self.writers)
                .map(|number| {
                    let file = dir.join(write_dir(number)).join("stream");
                    let (writing, seed) = (&writing, context.seed);
                    scope.spawn(move || write_stream(&file, self.stream_bytes, seed, writing))
                })
                .collect();
            wait(lead, control.stop, &mut ticker);
            let before = writing.bytes.load(Ordering::Relaxed);
            let limit = Duration::from_nanos(self.limit_ns);
            let request_bytes = self.read_bytes as usize;
            let mut on_block = || {
                ticker.tick(1);
                check_stop(control.stop)
            };
            let file = dir.join(FILE);
            let read = read_file(&file, context.seed, request_bytes, limit, &mut on_block);
            let written = writing.bytes.load(Ordering::Relaxed) - before;
            writing.over.store(true, Ordering::Relaxed);
            for writer in writers {
                let wrote = writer.join().expect("writing does not panic");
                wrote.context("write a stream beside the reader")?;
            }
            read.map(|read| (read, written))
        })?;
        if read.bytes != self.file_bytes {
            let what = format!("bytes read: {} of {}", read.bytes, self.file_bytes);
            return Err(Wrong(what).into());
        }
        let seconds = read.took.as_secs_f64();
        let mib_per_s = |bytes: u64| bytes as f64 / f64::from(1 << 20) / seconds;
        let (lower, higher) = (Direction::Lower, Direction::Higher);
        let max_block_ms = read.max_block_time.as_secs_f64() * 1e3;
        Ok(Driven {
            figures: vec![
                Figure::new("read-time", "s", lower, Role::Primary, seconds),
                secondary("read-rate", "MiB/s", higher, mib_per_s(read.bytes)),
                secondary("write-rate", "MiB/s", higher, mib_per_s(written)),
                secondary("read-block-max", "ms", lower, max_block_ms),
            ],
            ..Driven::default()
        })
    }
}

/// The file that is read, and its directory.
const FILE: &str = "read/file";
const READ_DIR: &str = "read";

/// The directory of a stream.
fn write_dir(number: u64) -> String {
    format!("write-{number}")
}

/// Waits for some time, or until `stop`.
fn wait(time: Duration, stop: &AtomicBool, ticker: &mut Ticker<'_>) {
    let began = Instant::now();
    while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
        let left = time.saturating_sub(began.elapsed());
        thread::sleep(left.min(Duration::from_millis(100)));
        ticker.tick(0);
    }
}

/// Blocks of seeded bytes with the block's number in front, so that all blocks differ.
struct Pattern(Vec<u8>);

impl Pattern {
    fn new(seed: u64) -> Self {
        let mut stream = stream(seed, "io-mix");
        let words = std::iter::repeat_with(|| stream.bits().to_le_bytes());
        Self(words.take(BLOCK / 8).flatten().collect())
    }

    /// The block with this number.
    fn block(&mut self, number: u64) -> &[u8] {
        self.0[..8].copy_from_slice(&number.to_le_bytes());
        &self.0
    }
}

fn write_file(path: &Path, bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut pattern = Pattern::new(seed);
    let mut file = File::create(path)?;
    for number in 0..bytes / BLOCK as u64 {
        file.write_all(pattern.block(number))?;
    }
    file.sync_all()
}

/// Result of reading a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    bytes: u64,
    took: Duration,
    /// Longest time for a block.
    max_block_time: Duration,
}

/// Reads the file sequentially and compares every byte. Calls `on_block` after each block.
fn read_file(
    path: &Path,
    seed: u64,
    request_bytes: usize,
    limit: Duration,
    on_block: &mut dyn FnMut() -> Result<()>,
) -> Result<Reading> {
    let mut pattern = Pattern::new(seed);
    let mut file = File::open(path).context("open the file to be read")?;
    let mut block = vec![0; BLOCK];
    let began = Instant::now();
    let (mut number, mut max_block_time) = (0, Duration::ZERO);
    loop {
        let before = began.elapsed();
        let length = fill(&mut file, &mut block, request_bytes).context("read the file")?;
        max_block_time = max_block_time.max(began.elapsed().saturating_sub(before));
        if length == 0 {
            break;
        }
        if block[..length] != *pattern.block(number) {
            let what = format!("wrong content in block {number} of the file that was read");
            return Err(Wrong(what).into());
        }
        number += 1;
        on_block()?;
        if began.elapsed() > limit {
            let limit = base::input::units::show_duration(limit);
            return Err(Wrong(format!("the file was not read in {limit}")).into());
        }
    }
    Ok(Reading {
        bytes: number * BLOCK as u64,
        took: began.elapsed(),
        max_block_time,
    })
}

/// Reads until the block is full or the file ends.
fn fill(file: &mut File, block: &mut [u8], request_bytes: usize) -> std::io::Result<usize> {
    let mut length = 0;
    while length < block.len() {
        let end = block.len().min(length + request_bytes);
        match file.read(&mut block[length..end])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

/// State shared by all writers.
#[derive(Debug, Default)]
struct Writing {
    over: AtomicBool,
    bytes: AtomicU64,
}

/// Writes blocks to a file until `writing.over`, and starts over after `stream_bytes`.
fn write_stream(
    path: &Path,
    stream_bytes: u64,
    seed: u64,
    writing: &Writing,
) -> std::io::Result<()> {
    let mut pattern = Pattern::new(seed);
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(path)?;
    for number in 0.. {
        if writing.over.load(Ordering::Relaxed) {
            break;
        }
        if number % (stream_bytes / BLOCK as u64) == 0 {
            file.seek(SeekFrom::Start(0))?;
        }
        file.write_all(pattern.block(number))?;
        writing.bytes.fetch_add(BLOCK as u64, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    fn read(path: &Path) -> Result<u64, String> {
        let limit = Duration::from_secs(60);
        let reading = read_file(path, 7, 5000, limit, &mut || Ok(()));
        let bytes = reading.map(|reading| reading.bytes);
        bytes.map_err(|why| why.to_string())
    }

    #[test]
    fn every_byte_is_compared() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write_file(&path, 4 << 20, 7).unwrap();
        assert_eq!(read(&path), Ok(4 << 20));
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"x", (2 << 20) + 4711).unwrap();
        let why = "wrong content in block 2 of the file that was read";
        assert_eq!(read(&path), Err(why.into()));
    }

    #[test]
    fn swapped_blocks_are_detected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write_file(&path, 2 << 20, 7).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.rotate_left(BLOCK);
        std::fs::write(&path, bytes).unwrap();
        assert!(read(&path).unwrap_err().contains("block 0"));
    }
}
