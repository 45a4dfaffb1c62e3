//! A journal as a file: JSON lines that are only ever appended.
//!
//! A line is whole or it is not there: a process that dies while it appends leaves a torn last line, which the next opening cuts off.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use input::file;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Opens a journal, or creates it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let open = || {
            file::refuse_special(path)?;
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).open(path)
        };
        let file = open().with_context(|| format!("cannot open journal: {}", path.display()))?;
        let path = path.into();
        Ok(Self { file, path })
    }

    /// Takes the lock of it, until it is closed; `false` where another process has it.
    pub(crate) fn try_lock(&self) -> Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(why)) => {
                Err(why).with_context(|| format!("cannot lock journal: {}", self.path.display()))
            }
        }
    }

    /// The lines so far; a torn last one is cut off.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let text = read(&self.path)?;
        let whole = whole(&text);
        if whole.len() < text.len() {
            let cut = self.file.set_len(whole.len() as u64);
            cut.context("cannot cut the torn line off the journal")?;
        }
        parse(&self.path, whole)
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
        // A program that another thread starts at this moment has the file, too, until it is its own.
        let _ = self.file.unlock();
    }
}

/// What a journal holds, the torn line included.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    file::read(path).with_context(|| format!("cannot read journal: {}", path.display()))
}

/// The whole lines of a text.
pub(crate) fn whole(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    &text[..end.map_or(0, |end| end + 1)]
}

/// The lines of a journal's text.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<Vec<T>> {
    let lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let mut values = Vec::new();
    for (index, line) in lines.enumerate() {
        let value = serde_json::from_slice(line);
        let place = || format!("damaged journal: {} line {}", path.display(), index + 1);
        values.push(value.with_context(place)?);
    }
    Ok(values)
}
