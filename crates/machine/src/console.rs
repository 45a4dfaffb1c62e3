//! A guest's console: a file that another process appends to, read as it grows.
//!
//! QEMU writes the file, and a guest may write anything, without a limit. So the file is never read whole, lines are
//! cut, and control characters are removed before anything is shown.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use base::input::text;
use base::input::tree::Tree;
use defects::Defect;
use record::defect::{DefectSource, FoundDefect};

/// Longest console, in bytes; a trial that writes more in a minute is void. A boot writes some 50 KiB.
pub const LIMIT_BYTES: u64 = 64 << 20;

/// A console that has grown longer than this loses its middle.
const LONG_BYTES: u64 = 16 << 20;

/// Bytes that are kept at its begin, and at its end.
const KEPT_END_BYTES: u64 = 1 << 20;

/// Least time between two cuts: a console that fills up faster is a flood.
const CUT_PERIOD: Duration = Duration::from_secs(60);

/// Longest part of a line that is searched.
const LINE_BYTES: usize = 4 << 10;

/// Bytes of one read.
const PIECE_BYTES: usize = 64 << 10;

/// The end of the file in which the last lines are.
const TAIL_BYTES: u64 = 256 << 10;

/// Longest line that a record keeps, in bytes.
const KEPT_BYTES: usize = 1 << 10;

/// The begin of a kernel's panic message.
pub(crate) const PANIC: &str = "Kernel panic - not syncing";

#[derive(Debug)]
pub(crate) struct Console {
    path: PathBuf,
    read_bytes: u64,
    scan: Scan,
    /// When it was cut last.
    cut: Option<Instant>,
    /// Bytes that were cut out so far.
    cut_bytes: u64,
    /// Length of the line that reports the cut.
    notice_bytes: u64,
}

impl Console {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            read_bytes: 0,
            scan: Scan::default(),
            cut: None,
            cut_bytes: 0,
            notice_bytes: 0,
        }
    }

    /// Whether more was written than a console may hold.
    pub(crate) fn is_flooded(&self) -> bool {
        self.path
            .metadata()
            .is_ok_and(|file| file.len() > LIMIT_BYTES)
    }

    /// The first line of a kernel panic, returned once.
    pub(crate) fn panic(&mut self) -> Option<String> {
        // Without a readable console, the agent's silence shows the panic.
        self.read_new().ok().flatten()
    }

    /// Defects that the kernel reported so far.
    pub(crate) fn defects(&mut self) -> Vec<FoundDefect> {
        // Reads the last lines; a panic in them was reported as the trial's end.
        let _ = self.read_new();
        let defects = self.scan.defects().into_iter();
        defects
            .map(|defect| FoundDefect::of(DefectSource::Console, defect))
            .collect()
    }

    /// Cuts the middle out of a long console that grows slowly, and leaves a notice there. The writer must append to the
    /// file.
    pub(crate) fn shorten(&mut self) {
        // A still longer one is a flood, which `is_flooded` must see.
        let is_long = |file: Metadata| (LONG_BYTES + 1..=LIMIT_BYTES).contains(&file.len());
        let is_due = self.cut.is_none_or(|cut| cut.elapsed() >= CUT_PERIOD);
        if is_due
            && open(&self.path)
                .and_then(|file| file.metadata())
                .is_ok_and(is_long)
        {
            self.cut = Some(Instant::now());
            // If that fails, the console grows to the limit.
            let _ = self.cut_middle();
        }
    }

    fn cut_middle(&mut self) -> io::Result<()> {
        let (dir, name) = Tree::around(&self.path);
        let mut file = dir.append(name)?;
        let mut head = vec![0; KEPT_END_BYTES as usize];
        file.read_exact(&mut head)?;
        head.truncate(after_line(&head, last_line_end));
        let from = file.metadata()?.len().saturating_sub(KEPT_END_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        // Loses what is written before the cut: some microseconds of a console that is cut anyway.
        (&mut file).take(LONG_BYTES).read_to_end(&mut tail)?;
        file.set_len(head.len() as u64)?;
        let length = from + tail.len() as u64;
        tail.drain(..after_line(&tail, first_line_end));
        let kept_bytes = (head.len() + tail.len()) as u64;
        self.cut_bytes += length - kept_bytes - self.notice_bytes;
        let notice = format!(
            "[bakeoff: {} bytes of this console were cut out here]\n",
            self.cut_bytes
        );
        self.notice_bytes = notice.len() as u64;
        file.write_all(&[notice.as_bytes(), &tail].concat())?;
        let unread = length
            .saturating_sub(self.read_bytes)
            .min(tail.len() as u64);
        self.read_bytes = kept_bytes + self.notice_bytes - unread;
        Ok(())
    }

    fn read_new(&mut self) -> io::Result<Option<String>> {
        let mut file = open(&self.path)?;
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut new = file.take(LIMIT_BYTES.saturating_sub(self.read_bytes));
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let length = new.read(&mut piece)?;
            if length == 0 {
                return Ok(None);
            }
            self.read_bytes += length as u64;
            if let Some(panic) = self.scan.feed(&piece[..length]) {
                return Ok(Some(panic));
            }
        }
    }

    /// The last lines, oldest first, without empty ones.
    pub(crate) fn tail(&self, lines: usize) -> Vec<String> {
        tail(&self.end().unwrap_or_default(), lines)
    }

    fn end(&self) -> io::Result<Vec<u8>> {
        let mut file = open(&self.path)?;
        let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut end)?;
        Ok(end)
    }
}

/// Makes an empty file for a console, opened for appending.
pub(crate) fn create(path: &Path) -> Result<File> {
    let (dir, name) = Tree::around(path);
    dir.remove_file(name)
        .and_then(|()| dir.append_only(name))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn open(path: &Path) -> io::Result<File> {
    let (dir, name) = Tree::around(path);
    dir.open(name)
}

fn first_line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

fn last_line_end(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|byte| *byte == b'\n')
}

/// The index after the end of a line, or 0.
fn after_line(bytes: &[u8], end: fn(&[u8]) -> Option<usize>) -> usize {
    end(bytes).map_or(0, |end| end + 1)
}

/// Searches a console, which comes in pieces, for a panic and other defects.
#[derive(Debug, Default)]
pub struct Scan {
    line: Vec<u8>,
    panicked: bool,
    reader: defects::Reader,
}

impl Scan {
    /// Takes the next piece. Returns the first line of a kernel panic, once it is complete.
    pub fn feed(&mut self, piece: &[u8]) -> Option<String> {
        let mut panic = None;
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (words, ends) = match part.strip_suffix(b"\n") {
                Some(words) => (words, true),
                None => (part, false),
            };
            let room = LINE_BYTES.saturating_sub(self.line.len());
            self.line.extend_from_slice(&words[..words.len().min(room)]);
            if ends {
                self.reader.line(&self.line);
                panic = panic.or_else(|| self.panic_in_line());
                self.line.clear();
            }
        }
        panic
    }

    /// Defects that the kernel reported so far.
    pub fn defects(&self) -> Vec<Defect> {
        self.reader.defects()
    }

    fn panic_in_line(&mut self) -> Option<String> {
        let line = String::from_utf8_lossy(&self.line);
        if self.panicked || !line.contains(PANIC) {
            return None;
        }
        self.panicked = true;
        Some(text::clean_line(without_stamp(&line)))
    }
}

/// The last lines of a console's end, oldest first, without control characters.
pub fn tail(end: &[u8], lines: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(end);
    let mut last = VecDeque::new();
    for line in text.lines().rev() {
        let line = text::clean_line(text::cut(line, KEPT_BYTES));
        let line = line.trim_end();
        if last.len() == lines {
            break;
        }
        if !line.is_empty() {
            last.push_front(line.to_string());
        }
    }
    last.into()
}

/// A kernel message without `[    0.123456] `.
fn without_stamp(line: &str) -> &str {
    let line = line.trim();
    match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((_, text)) => text,
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    fn console() -> (tempfile::TempDir, File, Console) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console.log");
        let file = File::create(&path).unwrap();
        (dir, file, Console::new(path))
    }

    #[test]
    fn half_a_line_is_no_panic_yet() {
        let (_dir, mut file, mut console) = console();
        file.write_all(b"booting\nKernel panic - not").unwrap();
        assert_eq!(console.panic(), None);
        file.write_all(b" syncing: x\nmore\n").unwrap();
        let panic = console.panic();
        assert_eq!(panic.as_deref(), Some("Kernel panic - not syncing: x"));
        file.write_all(b"Kernel panic - not syncing: y\n").unwrap();
        assert_eq!(console.panic(), None);
    }

    #[test]
    fn defects_on_the_console_are_kept_beside_a_panic() {
        let (_dir, mut file, mut console) = console();
        let lockup = b"[    9.0] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nginx:812]\n";
        file.write_all(lockup).unwrap();
        assert_eq!(console.panic(), None);
        file.write_all(b"[   12.0] Kernel panic - not syncing: softlockup: hung tasks\n")
            .unwrap();
        assert!(console.panic().is_some());
        file.write_all(lockup).unwrap();
        let defects = console.defects();
        let counts = defects.iter().map(|found| (found.kind.name(), found.count));
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts, [("panic", 1), ("soft-lockup", 2)]);
    }

    #[test]
    fn nothing_is_read_twice() {
        let (_dir, mut file, mut console) = console();
        for _ in 0..100 {
            file.write_all(&[b'x'; 1000]).unwrap();
            console.panic();
        }
        assert_eq!(console.read_bytes, 100_000);
        // A line without an end costs what a line may.
        assert_eq!(console.scan.line.len(), LINE_BYTES);
    }

    #[test]
    fn a_flood_is_seen_and_read_no_further() {
        let (_dir, file, mut console) = console();
        file.set_len(LIMIT_BYTES).unwrap();
        assert!(!console.is_flooded());
        // Sparse: it takes no room, and read whole it would take 64 GiB.
        file.set_len(LIMIT_BYTES << 10).unwrap();
        assert!(console.is_flooded());
        assert_eq!(console.panic(), None);
        assert_eq!(console.read_bytes, LIMIT_BYTES);
        assert_eq!(console.tail(20).len(), 0);
    }

    #[test]
    fn a_long_console_keeps_its_ends_and_says_what_was_cut() {
        let (dir, _file, mut console) = console();
        let path = dir.path().join("console.log");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"Linux version 7.2\n").unwrap();
        let mut written = 18;
        for round in 0..3 {
            let line = format!("round {round}: nothing but noise\n");
            while written <= (round + 1) * LONG_BYTES {
                let lines = line.repeat(10_000);
                file.write_all(lines.as_bytes()).unwrap();
                written += lines.len() as u64;
                assert_eq!(console.panic(), None);
            }
            console.shorten();
            // No sooner than after a minute again.
            console.cut = None;
        }
        file.write_all(b"Kernel panic - not syncing: x\n").unwrap();
        assert_eq!(
            console.panic().as_deref(),
            Some("Kernel panic - not syncing: x")
        );
        let text = fs::read_to_string(&path).unwrap();
        assert!((text.len() as u64) < 5 * KEPT_END_BYTES, "{}", text.len());
        assert!(text.starts_with("Linux version 7.2\nround 0: nothing but noise\n"));
        let notices: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("bakeoff"))
            .collect();
        let [notice] = notices.as_slice() else {
            panic!("{notices:?}");
        };
        let cut: u64 = notice.split(' ').nth(1).unwrap().parse().unwrap();
        let panic_bytes = 30;
        assert_eq!(
            text.len() as u64 - notice.len() as u64 - 1 + cut,
            written + panic_bytes
        );
        assert_eq!(console.tail(2)[0], "round 2: nothing but noise");
    }

    #[test]
    fn a_console_is_not_cut_twice_in_a_minute() {
        let (dir, _file, mut console) = console();
        let path = dir.path().join("console.log");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        let noise = b"noise\n".repeat(LONG_BYTES as usize / 6 + 1);
        for expected in [false, true] {
            file.write_all(&noise).unwrap();
            console.shorten();
            assert_eq!(file.metadata().unwrap().len() > LONG_BYTES, expected);
        }
    }

    #[test]
    fn the_last_lines_are_those_of_the_end() {
        let (_dir, mut file, console) = console();
        file.write_all(&b"early\n".repeat(100_000)).unwrap();
        file.write_all(b"\x1b[32mlast but one\x1b[0m\r\n\nlast")
            .unwrap();
        assert_eq!(console.tail(2), ["last but one", "last"]);
        assert_eq!(console.tail(3)[0], "early");
    }

    #[test]
    fn a_console_that_is_not_there_says_nothing() {
        let (dir, _file, mut console) = console();
        fs::remove_dir_all(dir.path()).unwrap();
        assert_eq!(console.panic(), None);
        assert_eq!(console.tail(3), Vec::<String>::new());
        assert!(!console.is_flooded());
    }
}
