//! The file of a journal: JSON lines, append-only.
//!
//! A process that dies while it appends leaves a torn last line, which is cut off when the journal is opened again.

use std::fs::{File, TryLockError};
use std::io::{
    self, BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base::input::tree::Tree;
use base::input::units::show_bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::hash::hex;
use crate::json;

/// Longest file of lines, in bytes. The journal of 5,000 blocks of four arms has 20 MiB, the samples of the longest trial have 90 MiB.
pub const MOST_BYTES: u64 = 128 << 20;

/// Longest line of such a file, in bytes.
pub const LINE_BYTES: u64 = 4 << 20;

/// Most values in a journal; they take at most 200 MiB of memory.
const MOST_VALUES: usize = 1 << 20;

/// Most values in one line.
const LINE_VALUES: usize = 1 << 16;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Opens a journal, or creates it.
    pub(crate) fn open(dir: &Tree, name: &str) -> Result<Self> {
        let path = dir.path().join(name);
        let file = dir
            .append(name)
            .with_context(|| format!("cannot open journal: {}", path.display()))?;
        Ok(Self { file, path })
    }

    /// Locks it until it is closed; `false` if another process has the lock.
    pub(crate) fn try_lock(&self) -> Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(why)) => {
                Err(why).with_context(|| format!("cannot lock journal: {}", self.path.display()))
            }
        }
    }

    /// Reads the lines so far; a torn last line is cut off.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        // The file is in append mode, so the position does not affect writes.
        let file = self.file.try_clone().and_then(|mut file| {
            file.seek(SeekFrom::Start(0))?;
            Reader::of(file)
        });
        let read = journaled(file, &self.path)?;
        if read.is_torn {
            let cut = self.file.set_len(read.whole_bytes);
            cut.context("cannot cut the torn line off the journal")?;
        }
        Ok(read.values)
    }

    /// Appends one line and waits until it is on disk.
    pub(crate) fn append(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let written = self
            .file
            .write_all(&line)
            .and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot append to journal: {}", self.path.display()))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // A child process that is just being started holds the file, and its lock, until it calls exec.
        let _ = self.file.unlock();
    }
}

/// Content of a journal.
pub(crate) struct Journaled<T> {
    /// Its parsed lines.
    pub(crate) values: Vec<T>,
    /// SHA-256 of the whole lines.
    pub(crate) sha256: String,
    /// Length of the whole lines, in bytes.
    whole_bytes: u64,
    /// Whether a torn line follows.
    is_torn: bool,
}

/// Reads a journal line by line; a torn last line is ignored.
pub(crate) fn read<T: DeserializeOwned>(dir: &Tree, name: &str) -> Result<Journaled<T>> {
    journaled(Reader::open(dir, name), &dir.path().join(name))
}

fn journaled<T: DeserializeOwned>(lines: io::Result<Reader>, path: &Path) -> Result<Journaled<T>> {
    let cannot_read = || format!("cannot read journal: {}", path.display());
    let mut lines = lines.with_context(cannot_read)?;
    let (mut parser, mut hasher) = (Parser::default(), Sha256::new());
    let (mut values, mut whole_bytes, mut number) = (Vec::new(), 0, 0);
    while let Some(line) = lines.next().with_context(cannot_read)? {
        hasher.update(line);
        whole_bytes += line.len() as u64;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        number += 1;
        let damaged = || format!("damaged journal: {} line {number}", path.display());
        values.push(parser.parse(line).with_context(damaged)?);
    }
    Ok(Journaled {
        values,
        sha256: hex(&hasher.finalize()),
        whole_bytes,
        is_torn: lines.is_torn,
    })
}

/// Parses the lines of a journal, and limits their values.
#[derive(Debug, Default)]
pub struct Parser {
    values: usize,
}

impl Parser {
    /// Parses the next line.
    ///
    /// # Errors
    /// The line is not JSON of that type, or has more values than a line or a journal may have.
    pub fn parse<T: DeserializeOwned>(&mut self, line: &[u8]) -> serde_json::Result<T> {
        let most = LINE_VALUES.min(MOST_VALUES - self.values);
        let value = json::read(line, most)?;
        self.values += json::count(line);
        Ok(value)
    }
}

/// Reads whole lines of a file, with a single line in memory.
pub(crate) struct Reader {
    file: BufReader<File>,
    line: Vec<u8>,
    is_torn: bool,
}

impl Reader {
    /// Opens a regular file of at most `MOST_BYTES`.
    pub(crate) fn open(dir: &Tree, name: &str) -> io::Result<Self> {
        Self::of(dir.open(name)?)
    }

    fn of(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        if length > MOST_BYTES {
            return Err(too_long("file", MOST_BYTES, Some(length)));
        }
        Ok(Self {
            file: BufReader::new(file),
            line: Vec::new(),
            is_torn: false,
        })
    }

    /// The next line with its line feed; a last line without one is left out.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut rest = (&mut self.file).take(LINE_BYTES + 1);
        rest.read_until(b'\n', &mut self.line)?;
        if self.line.last() == Some(&b'\n') {
            return Ok(Some(&self.line));
        }
        if self.line.len() as u64 > LINE_BYTES {
            return Err(too_long("line", LINE_BYTES, None));
        }
        self.is_torn = !self.line.is_empty();
        Ok(None)
    }
}

fn too_long(what: &str, most_bytes: u64, length: Option<u64>) -> io::Error {
    let most = show_bytes(most_bytes);
    let length = length.map_or_else(String::new, |length| format!(": {}", show_bytes(length)));
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("{what} longer than {most}{length} (put back what bakeoff has written)"),
    )
}
