//! `io-mix`: a large file is read while somebody else streams writes to the same disk.
//!
//! After `InfoWorld`'s words on 2.6's I/O schedulers, 30 January 2004: a 500 MB file, and writes of 1 MB blocks beside it; reading
//! took 37 s under 2.4 and 3.9 s under 2.6. The I/O scheduler is the arm's (`io_scheduler`, `queue`), the disk the machine's.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plan::Traits;
use plan::fields::Fields;
use record::metric::{Direction, Figure, Role};
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::data::stream;
use crate::disk;
use crate::figures::{Seen, guard};
use crate::options;
use crate::overview::{Key, Overview};
use crate::service::Service;
use crate::ticker::Ticker;
use crate::{Checked, Driven, Kind, Timing, Watcher, Workload, Wrong};

pub(crate) const KIND: Kind = Kind {
    word: "io-mix",
    traits: |_| Traits::default(),
    overview: Overview {
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
    check,
    from_options: |options| Ok(Box::new(Options::deserialize(options)?)),
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// Size of the file that is read; a multiple of `BLOCK`.
    file_bytes: u64,
    /// Writers beside the reader; none measures reading alone.
    writers: u64,
    /// What each writer writes before it begins again at the front; a multiple of `BLOCK`.
    #[serde(default = "stream_bytes")]
    stream_bytes: u64,
    /// What the reader asks for at a time; `BLOCK` at the most.
    #[serde(default = "block_bytes")]
    read_bytes: u64,
    /// Time that the writers have before the read.
    #[serde(default)]
    lead_ns: u64,
    limit_ns: u64,
}

/// What readers and writers take at a time.
const BLOCK: usize = 1 << 20;

/// What a writer writes where the plan does not say.
fn stream_bytes() -> u64 {
    512 << 20
}

/// What a reader asks for where the plan does not say.
fn block_bytes() -> u64 {
    BLOCK as u64
}

fn check(fields: &Fields<'_>) -> Option<Checked> {
    let sizes = (8 << 20)..=(1 << 40);
    let file_bytes = options::bytes(fields, "file", sizes.clone(), 500 << 20);
    let stream_bytes = options::bytes(fields, "stream", sizes, stream_bytes());
    let read_bytes = options::bytes(fields, "read", 512..=block_bytes(), block_bytes());
    let lead = read_lead(fields);
    let writers = options::count(fields, "writers", 0..=64, 1);
    let timing = options::limit(fields, Duration::from_secs(600));
    let options = Options {
        file_bytes: file_bytes?.next_multiple_of(BLOCK as u64),
        writers: writers?,
        stream_bytes: stream_bytes?.next_multiple_of(BLOCK as u64),
        read_bytes: read_bytes?,
        lead_ns: lead?.as_nanos() as u64,
        limit_ns: timing?.window.as_nanos() as u64,
    };
    Some(Checked::new(&options, options.timing()))
}

fn read_lead(fields: &Fields<'_>) -> Option<Duration> {
    if !fields.takes("lead") {
        return Some(Duration::ZERO);
    }
    let lead = fields.read("lead", base::input::units::duration)?;
    if lead > LONGEST_LEAD {
        let what = format!(
            "lead out of range: {}",
            base::input::units::show_duration(lead)
        );
        fields.wrong("lead", what, "write 0s to 1h");
        return None;
    }
    Some(lead)
}

/// More than any page cache takes to fill.
const LONGEST_LEAD: Duration = Duration::from_secs(3600);

impl Workload for Options {
    fn packages(&self) -> Vec<&str> {
        disk::PACKAGES.into()
    }

    fn disk_bytes(&self) -> u64 {
        self.file_bytes + self.writers * self.stream_bytes + disk::SPARE_BYTES
    }

    fn timing(&self) -> Timing {
        Timing {
            warmup: Duration::from_nanos(self.lead_ns),
            window: Duration::from_nanos(self.limit_ns),
        }
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        let dir = disk::mount(context, 1 + self.writers)?;
        let file = dir.join(FILE);
        // Directories of their own lie apart from each other on the disk, and with them their files.
        fs::create_dir(dir.join(READ_DIR)).context("make a directory for the file")?;
        for number in 0..self.writers {
            fs::create_dir(dir.join(write_dir(number))).context("make a directory for a stream")?;
        }
        write_file(&file, self.file_bytes, context.seed)
            .with_context(|| format!("write {}", file.display()))?;
        Ok(Vec::new())
    }

    fn drive(
        &self,
        context: &WorkloadContext,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        let dir = disk::place(context);
        disk::forget_cached()?;
        let lead = Duration::from_nanos(self.lead_ns);
        let mut ticker = Ticker::begin(watcher, lead);
        let writing = Writing::default();
        let (read, written) = thread::scope(|scope| {
            let writers: Vec<_> = (0..self.writers)
                .map(|number| {
                    let file = dir.join(write_dir(number)).join("stream");
                    let (writing, seed) = (&writing, context.seed);
                    scope.spawn(move || write_stream(&file, self.stream_bytes, seed, writing))
                })
                .collect();
            let is_stopped = || stop.load(Ordering::Relaxed);
            wait(lead, &mut || {
                ticker.tick(0);
                !is_stopped()
            });
            let before = writing.bytes.load(Ordering::Relaxed);
            let limits = (
                self.read_bytes as usize,
                Duration::from_nanos(self.limit_ns),
            );
            let read = read_file(&dir.join(FILE), context.seed, limits, &mut |blocks| {
                ticker.tick(blocks);
                !is_stopped()
            });
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
        let worst = read.worst.as_secs_f64() * 1e3;
        Ok(Driven {
            figures: vec![
                Figure::new("read-time", "s", Direction::Lower, Role::Primary, seconds),
                guard(
                    "read-rate",
                    "MiB/s",
                    Direction::Higher,
                    mib_per_s(read.bytes),
                ),
                guard("write-rate", "MiB/s", Direction::Higher, mib_per_s(written)),
                guard("read-block-max", "ms", Direction::Lower, worst),
            ],
            ..Driven::default()
        })
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        Ok(seen.driven.figures.clone())
    }
}

/// The file that is read, and its directory.
const FILE: &str = "read/file";
const READ_DIR: &str = "read";

/// The directory of a stream.
fn write_dir(number: u64) -> String {
    format!("write-{number}")
}

/// Lets a time pass, unless `go_on` ends it, which is asked ten times a second.
fn wait(time: Duration, go_on: &mut dyn FnMut() -> bool) {
    let began = Instant::now();
    while let Some(left) = time
        .checked_sub(began.elapsed())
        .filter(|left| !left.is_zero())
    {
        thread::sleep(left.min(Duration::from_millis(100)));
        if !go_on() {
            return;
        }
    }
}

/// A block's bytes: the seed's, with its own number in front, so that no two are equal.
struct Pattern(Vec<u8>);

impl Pattern {
    fn new(seed: u64) -> Self {
        let mut stream = stream(seed, "io-mix");
        let words = std::iter::repeat_with(|| stream.bits().to_le_bytes());
        Self(words.take(BLOCK / 8).flatten().collect())
    }

    /// The block of that number.
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

/// What a reader came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    bytes: u64,
    took: Duration,
    /// Longest time for one block.
    worst: Duration,
}

/// Reads the file from front to back, so many bytes at a time, and compares every byte; `go_on` is told of each block and may end it.
fn read_file(
    path: &Path,
    seed: u64,
    (at_a_time, limit): (usize, Duration),
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Reading> {
    let mut pattern = Pattern::new(seed);
    let mut file = File::open(path).context("open the file to be read")?;
    let mut block = vec![0; BLOCK];
    let began = Instant::now();
    let (mut number, mut worst) = (0, Duration::ZERO);
    loop {
        let before = began.elapsed();
        let length = fill(&mut file, &mut block, at_a_time).context("read the file")?;
        worst = worst.max(began.elapsed().saturating_sub(before));
        if length == 0 {
            break;
        }
        if block[..length] != *pattern.block(number) {
            let what = format!("wrong content in block {number} of the file that was read");
            return Err(Wrong(what).into());
        }
        number += 1;
        if !go_on(1) {
            bail!("stopped by the host");
        }
        if began.elapsed() > limit {
            let limit = base::input::units::show_duration(limit);
            return Err(Wrong(format!("the file was not read in {limit}")).into());
        }
    }
    Ok(Reading {
        bytes: number * BLOCK as u64,
        took: began.elapsed(),
        worst,
    })
}

/// Reads until the block is full or the file has ended.
fn fill(file: &mut File, block: &mut [u8], at_a_time: usize) -> std::io::Result<usize> {
    let mut length = 0;
    while length < block.len() {
        let end = block.len().min(length + at_a_time);
        match file.read(&mut block[length..end])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

/// What writers share.
#[derive(Debug, Default)]
struct Writing {
    over: AtomicBool,
    bytes: AtomicU64,
}

/// Streams blocks into a file until it is over; from its front again when it has filled its room.
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
        let reading = read_file(path, 7, (5000, limit), &mut |_| true);
        reading.map(|one| one.bytes).map_err(|why| why.to_string())
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
    fn two_blocks_that_changed_places_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write_file(&path, 2 << 20, 7).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.rotate_left(BLOCK);
        std::fs::write(&path, bytes).unwrap();
        assert!(read(&path).unwrap_err().contains("block 0"));
    }
}
