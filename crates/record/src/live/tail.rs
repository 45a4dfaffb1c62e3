//! Lines added to a file since the last read.

use std::fs::Metadata;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use crate::journal::{LINE_BYTES, MOST_BYTES};
use base::input::tree::Tree;
use base::input::units::show_bytes;

/// Most bytes per read; the rest follows with the next.
const CHUNK_BYTES: u64 = 2 << 20;

/// A file that grows or is replaced.
#[derive(Debug)]
pub(crate) struct Tail {
    dir: Tree,
    name: String,
    /// `None` before it exists.
    identity: Option<Identity>,
    offset: u64,
    /// The beginning of an incomplete line.
    torn: Vec<u8>,
}

/// Device, inode and creation time, as inode numbers are reused at once.
type Identity = (u64, u64, Option<SystemTime>);

/// Lines since the last read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NewLines {
    /// Whether the file was replaced: lines from earlier reads are no longer valid.
    pub(crate) is_replaced: bool,
    /// Whole lines, without line feeds.
    pub(crate) lines: Vec<Vec<u8>>,
}

impl Tail {
    pub(crate) fn new(dir: impl Into<Tree>, name: &str) -> Self {
        Self {
            dir: dir.into(),
            name: name.into(),
            identity: None,
            offset: 0,
            torn: Vec::new(),
        }
    }

    /// Reads the lines since the last read. A missing file has no lines.
    pub(crate) fn read(&mut self) -> io::Result<NewLines> {
        let mut file = match self.dir.open(&self.name) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(self.reset()),
            Err(why) => return Err(why),
        };
        let metadata = file.metadata()?;
        let identity = Some(identity(&metadata));
        if self.identity == identity && metadata.len() == self.offset {
            return Ok(NewLines::default());
        }
        if metadata.len() > MOST_BYTES {
            return Err(too_long("file", MOST_BYTES));
        }
        let is_replaced = self.identity != identity || metadata.len() < self.offset;
        if is_replaced {
            (self.identity, self.offset) = (identity, 0);
            self.torn.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut chunk = std::mem::take(&mut self.torn);
        self.offset += file.take(CHUNK_BYTES).read_to_end(&mut chunk)? as u64;
        let last_end = chunk.iter().rposition(|byte| *byte == b'\n');
        self.torn = chunk.split_off(last_end.map_or(0, |end| end + 1));
        if self.torn.len() as u64 > LINE_BYTES {
            self.torn = Vec::new();
            return Err(too_long("line", LINE_BYTES));
        }
        let lines = chunk.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty()).map(Vec::from);
        Ok(NewLines {
            is_replaced,
            lines: lines.collect(),
        })
    }

    /// Starts over after the file was removed.
    fn reset(&mut self) -> NewLines {
        let is_replaced = self.identity.is_some();
        *self = Self::new(&self.dir, &self.name);
        NewLines {
            is_replaced,
            lines: Vec::new(),
        }
    }
}

fn too_long(what: &str, most_bytes: u64) -> io::Error {
    let what = format!("{what} longer than {}", show_bytes(most_bytes));
    io::Error::new(ErrorKind::FileTooLarge, what)
}

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino(), metadata.created().ok())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    fn lines(new: &NewLines) -> Vec<String> {
        let text = |line: &Vec<u8>| String::from_utf8(line.clone()).unwrap();
        new.lines.iter().map(text).collect()
    }

    #[test]
    fn a_line_is_returned_once_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let mut tail = Tail::new(dir.path(), "lines");
        assert_eq!(tail.read().unwrap(), NewLines::default());
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(b"one\ntw").unwrap();
        let new = tail.read().unwrap();
        assert!(new.is_replaced);
        assert_eq!(lines(&new), ["one"]);
        assert_eq!(tail.read().unwrap(), NewLines::default());
        file.write_all(b"o\nthree\n").unwrap();
        let new = tail.read().unwrap();
        assert!(!new.is_replaced);
        assert_eq!(lines(&new), ["two", "three"]);
    }

    #[test]
    fn a_replaced_file_is_read_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let mut tail = Tail::new(dir.path(), "lines");
        fs::write(&path, "a\nb\n").unwrap();
        tail.read().unwrap();
        fs::write(dir.path().join("draft"), "b\nc\nd\n").unwrap();
        fs::rename(dir.path().join("draft"), &path).unwrap();
        let new = tail.read().unwrap();
        assert!(new.is_replaced);
        assert_eq!(lines(&new), ["b", "c", "d"]);
        fs::write(&path, "e\n").unwrap();
        assert!(tail.read().unwrap().is_replaced);
        fs::remove_file(&path).unwrap();
        assert!(tail.read().unwrap().is_replaced);
        assert!(!tail.read().unwrap().is_replaced);
    }

    #[test]
    fn a_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("lines")).unwrap();
        let mut tail = Tail::new(dir.path(), "lines");
        assert!(tail.read().is_err());
    }
}
