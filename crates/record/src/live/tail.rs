//! Lines that were added to a file since it was last looked at.

use std::fs::Metadata;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use crate::journal::{LINE_BYTES, MOST_BYTES};
use base::input::tree::Tree;
use base::input::units::show_bytes;

/// So much of a file is read at a look; what is left comes with the next.
const PIECE_BYTES: u64 = 2 << 20;

/// A file that grows, or that another takes the place of.
#[derive(Debug)]
pub(crate) struct Tail {
    dir: Tree,
    name: String,
    /// `None` before it was there.
    place: Option<Place>,
    offset: u64,
    /// A line whose end was not there yet.
    torn: Vec<u8>,
}

/// Device, inode and birth: the number of an inode is given to the next file at once.
type Place = (u64, u64, Option<SystemTime>);

/// What has come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The lines are those of another file than before: what is known of the old one is void.
    pub(crate) is_anew: bool,
    /// Whole lines, without their ends.
    pub(crate) lines: Vec<Vec<u8>>,
}

impl Tail {
    pub(crate) fn new(dir: impl Into<Tree>, name: &str) -> Self {
        Self {
            dir: dir.into(),
            name: name.into(),
            place: None,
            offset: 0,
            torn: Vec::new(),
        }
    }

    /// What has come since the last look. A file that is not there has no lines.
    pub(crate) fn read(&mut self) -> io::Result<News> {
        let mut file = match self.dir.open(&self.name) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(self.gone()),
            Err(why) => return Err(why),
        };
        let about = file.metadata()?;
        if self.place == Some(place(&about)) && about.len() == self.offset {
            return Ok(News::default());
        }
        if about.len() > MOST_BYTES {
            return Err(too_long("file", MOST_BYTES));
        }
        let is_anew = self.place != Some(place(&about)) || about.len() < self.offset;
        if is_anew {
            (self.place, self.offset) = (Some(place(&about)), 0);
            self.torn.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut piece = std::mem::take(&mut self.torn);
        self.offset += file.take(PIECE_BYTES).read_to_end(&mut piece)? as u64;
        let whole = piece.iter().rposition(|byte| *byte == b'\n');
        self.torn = piece.split_off(whole.map_or(0, |end| end + 1));
        if self.torn.len() as u64 > LINE_BYTES {
            self.torn = Vec::new();
            return Err(too_long("line", LINE_BYTES));
        }
        let lines = piece.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty()).map(Vec::from);
        Ok(News {
            is_anew,
            lines: lines.collect(),
        })
    }

    fn gone(&mut self) -> News {
        let is_anew = self.place.is_some();
        *self = Self::new(&self.dir, &self.name);
        News {
            is_anew,
            lines: Vec::new(),
        }
    }
}

fn too_long(what: &str, most_bytes: u64) -> io::Error {
    let what = format!("{what} longer than {}", show_bytes(most_bytes));
    io::Error::new(ErrorKind::FileTooLarge, what)
}

fn place(about: &Metadata) -> Place {
    (about.dev(), about.ino(), about.created().ok())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    fn lines(news: &News) -> Vec<String> {
        let text = |line: &Vec<u8>| String::from_utf8(line.clone()).unwrap();
        news.lines.iter().map(text).collect()
    }

    #[test]
    fn a_line_is_told_once_and_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let mut tail = Tail::new(dir.path(), "lines");
        assert_eq!(tail.read().unwrap(), News::default());
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(b"one\ntw").unwrap();
        let news = tail.read().unwrap();
        assert!(news.is_anew);
        assert_eq!(lines(&news), ["one"]);
        assert_eq!(tail.read().unwrap(), News::default());
        file.write_all(b"o\nthree\n").unwrap();
        let news = tail.read().unwrap();
        assert!(!news.is_anew);
        assert_eq!(lines(&news), ["two", "three"]);
    }

    #[test]
    fn another_file_in_its_place_is_read_from_its_begin() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let mut tail = Tail::new(dir.path(), "lines");
        fs::write(&path, "a\nb\n").unwrap();
        tail.read().unwrap();
        fs::write(dir.path().join("draft"), "b\nc\nd\n").unwrap();
        fs::rename(dir.path().join("draft"), &path).unwrap();
        let news = tail.read().unwrap();
        assert!(news.is_anew);
        assert_eq!(lines(&news), ["b", "c", "d"]);
        fs::write(&path, "e\n").unwrap();
        assert!(tail.read().unwrap().is_anew);
        fs::remove_file(&path).unwrap();
        assert!(tail.read().unwrap().is_anew);
        assert!(!tail.read().unwrap().is_anew);
    }

    #[test]
    fn what_is_no_file_is_an_error_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("lines")).unwrap();
        let mut tail = Tail::new(dir.path(), "lines");
        assert!(tail.read().is_err());
    }
}
