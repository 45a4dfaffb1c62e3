//! Reading files that a user names. Files below a directory that another user may have filled are opened by `tree`.
//!
//! Only regular files are read: opening a FIFO would block until another program writes to it, and a device may never
//! end. Open descriptors are an exception: `/dev/stdin` and a shell's `<(command)` have a writer at the other end.

use std::fs::{self, File, FileType, Metadata};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use crate::input::units::show_bytes;

/// Directories and files that name open descriptors.
const DESCRIPTORS: [&str; 4] = [
    "/dev/stdin",
    "/dev/fd",
    "/proc/self/fd",
    "/proc/thread-self/fd",
];

/// Opens a regular file for reading.
///
/// # Errors
/// As `File::open`, and if it is not a regular file.
pub fn open(path: &Path) -> Result<File> {
    refuse_special(path)?;
    File::open(path)
}

/// Reads everything from a file, a pipe or a decompressor, up to a limit.
///
/// # Errors
/// As `Read::read_to_end`, and if there is more than `most_bytes`; at most one byte beyond the limit is read.
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

/// The content of a regular file of at most `most_bytes`.
///
/// # Errors
/// As `open` and `read_all`; a file whose size is known to be larger is not read.
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

/// The text of a regular file of at most `most_bytes`.
///
/// # Errors
/// As `read`, and if it is not UTF-8.
pub fn read_to_string(path: &Path, most_bytes: u64) -> Result<String> {
    text(read(path, most_bytes)?)
}

pub(crate) fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|why| Error::new(ErrorKind::InvalidData, why.utf8_error().to_string()))
}

/// The text of a regular file that a person writes, of at most `most_bytes`.
///
/// # Errors
/// As `read_to_string`, with a remedy.
pub fn read_to_string_within(path: &Path, most_bytes: u64) -> Result<String> {
    read_written(open(path)?, most_bytes)
}

pub(crate) fn read_written(file: File, most_bytes: u64) -> Result<String> {
    let bytes = read_all(file, most_bytes).map_err(|why| match why.kind() {
        ErrorKind::FileTooLarge => Error::other(format!("{why} (write less)")),
        _ => why,
    })?;
    String::from_utf8(bytes).map_err(|why| {
        let valid = &why.as_bytes()[..why.utf8_error().valid_up_to()];
        let line = 1 + String::from_utf8_lossy(valid).matches('\n').count();
        Error::other(format!("line {line} is not UTF-8 (save it as UTF-8)"))
    })
}

/// Metadata of a regular file.
///
/// # Errors
/// As `fs::metadata`, and if it is not a regular file.
pub fn metadata(path: &Path) -> Result<Metadata> {
    let metadata = fs::metadata(path)?;
    match kind(metadata.file_type()) {
        None => Ok(metadata),
        Some(kind) => Err(Error::other(format!("not a regular file: it is {kind}"))),
    }
}

/// Refuses a path at which there is something else than a regular file; a missing file is accepted.
///
/// # Errors
/// The path is not a regular file; the error names its type.
fn refuse_special(path: &Path) -> Result<()> {
    if DESCRIPTORS.iter().any(|name| path.starts_with(name)) || !path.exists() {
        return Ok(());
    }
    metadata(path).map(|_| ())
}

/// The name of a file type; `None` for a regular file.
pub(crate) fn kind(file_type: FileType) -> Option<&'static str> {
    if file_type.is_file() {
        None
    } else if file_type.is_dir() {
        Some("a directory")
    } else if file_type.is_symlink() {
        Some("a symbolic link")
    } else if file_type.is_fifo() {
        Some("a FIFO")
    } else if file_type.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(path: &str) -> String {
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
        assert_eq!(outcome(&file.display().to_string()), "4 bytes");
        assert_eq!(read_to_string(&file, 4).unwrap(), "four");
        let why = read(&file, 3).unwrap_err().to_string();
        assert_eq!(why, "longer than 3.00 B: 4.00 B");
        // Input of unknown length is read up to one byte beyond the limit.
        let why = read_all(std::io::repeat(0), 3).unwrap_err().to_string();
        assert_eq!(why, "longer than 3.00 B");
        assert_eq!(outcome("/"), "not a regular file: it is a directory");
        assert_eq!(outcome("/dev/zero"), "not a regular file: it is a device");
        assert!(outcome("/nowhere/file").contains("No such file"));
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
