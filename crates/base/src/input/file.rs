//! Reading files that a user names. What lies below a directory that somebody else may have filled is opened by `tree`.
//!
//! A FIFO in the place of a file would be waited for until somebody writes to it, and a device may never end: only
//! regular files are read. What is open already is another matter: `/dev/stdin` and a shell's `<(command)` have
//! somebody at the other end.

use std::fs::{self, File, FileType, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use crate::input::units::show_bytes;

/// Where the descriptors that are open already have their names.
const OPEN_ALREADY: [&str; 4] = [
    "/dev/stdin",
    "/dev/fd",
    "/proc/self/fd",
    "/proc/thread-self/fd",
];

/// Opens a regular file, to be read.
///
/// # Errors
/// As `File::open`, and for what is no regular file.
pub fn open(path: &Path) -> Result<File> {
    refuse_special(path)?;
    File::open(path)
}

/// Everything that `from` gives, where that is no more than so many bytes: a file, a pipe, what a decompressor unpacks.
///
/// # Errors
/// As `Read::read_to_end`, and where there is more; no more than a byte beyond the limit is read.
pub fn read_all(from: impl Read, most_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(too_long(most_bytes));
    }
    Ok(bytes)
}

fn too_long(most_bytes: u64) -> Error {
    let most = show_bytes(most_bytes);
    Error::new(ErrorKind::FileTooLarge, format!("longer than {most}"))
}

/// The content of a regular file of at most so many bytes.
///
/// # Errors
/// As `open` and `read_all`; a file that says that it is longer is not read.
pub fn read(path: &Path, most_bytes: u64) -> Result<Vec<u8>> {
    read_opened(open(path)?, most_bytes)
}

pub(crate) fn read_opened(file: File, most_bytes: u64) -> Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most_bytes {
        let (most, length) = (show_bytes(most_bytes), show_bytes(length));
        let what = format!("longer than {most}: {length}");
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    read_all(file, most_bytes)
}

/// The text of a regular file of at most so many bytes.
///
/// # Errors
/// As `read`, and where it is no UTF-8.
pub fn read_to_string(path: &Path, most_bytes: u64) -> Result<String> {
    text(read(path, most_bytes)?)
}

pub(crate) fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|why| Error::new(ErrorKind::InvalidData, why.utf8_error().to_string()))
}

/// The text of a regular file that a person writes, of at most so many bytes.
///
/// # Errors
/// As `read_to_string`, each with its remedy.
pub fn read_to_string_within(path: &Path, most_bytes: u64) -> Result<String> {
    written(open(path)?, most_bytes)
}

pub(crate) fn written(file: File, most_bytes: u64) -> Result<String> {
    let bytes = read_all(file, most_bytes).map_err(|why| match why.kind() {
        ErrorKind::FileTooLarge => Error::other(format!("{why} (write less)")),
        _ => why,
    })?;
    String::from_utf8(bytes).map_err(|why| {
        let good = &why.as_bytes()[..why.utf8_error().valid_up_to()];
        let line = 1 + String::from_utf8_lossy(good).matches('\n').count();
        Error::other(format!("line {line} is not UTF-8 (save it as UTF-8)"))
    })
}

/// What is known of a regular file without reading it.
///
/// # Errors
/// As `fs::metadata`, and for what is no regular file.
pub fn metadata(path: &Path) -> Result<Metadata> {
    let metadata = fs::metadata(path)?;
    match kind(metadata.file_type()) {
        None => Ok(metadata),
        Some(kind) => Err(Error::other(format!("not a regular file: it is {kind}"))),
    }
}

/// Says what is wrong with a path that no regular file is at; a file that is not there is none of its business.
///
/// # Errors
/// Names what is in the place of a file.
fn refuse_special(path: &Path) -> Result<()> {
    if OPEN_ALREADY.iter().any(|open| path.starts_with(open)) || !path.exists() {
        return Ok(());
    }
    metadata(path).map(|_| ())
}

pub(crate) fn kind(of: FileType) -> Option<&'static str> {
    if of.is_file() {
        None
    } else if of.is_dir() {
        Some("a directory")
    } else if of.is_symlink() {
        Some("a symbolic link")
    } else if of.is_fifo() {
        Some("a FIFO")
    } else if of.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str) -> String {
        match read(Path::new(path), 4) {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "four").unwrap();
        assert_eq!(said(&file.display().to_string()), "4 bytes");
        assert_eq!(read_to_string(&file, 4).unwrap(), "four");
        let why = read(&file, 3).unwrap_err().to_string();
        assert_eq!(why, "longer than 3.00 B: 4.00 B");
        // What says nothing of its length is read up to the limit, and a byte more.
        let why = read_all(std::io::repeat(0), 3).unwrap_err().to_string();
        assert_eq!(why, "longer than 3.00 B");
        assert_eq!(said("/"), "not a regular file: it is a directory");
        assert_eq!(said("/dev/zero"), "not a regular file: it is a device");
        assert!(said("/nowhere/file").contains("No such file"));
    }

    #[test]
    fn a_text_has_a_length_and_is_utf_8() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let read = |most_bytes| {
            let read = read_to_string_within(&file, most_bytes);
            read.unwrap_or_else(|why| why.to_string())
        };
        fs::write(&file, "four").unwrap();
        assert_eq!(read(4), "four");
        assert_eq!(read(3), "longer than 3.00 B (write less)");
        fs::write(&file, b"one\ntw\xf6\n").unwrap();
        assert_eq!(read(9), "line 2 is not UTF-8 (save it as UTF-8)");
    }
}
