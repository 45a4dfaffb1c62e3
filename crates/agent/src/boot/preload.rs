//! Reading the image's programs into memory before there is a clock to keep.
//!
//! A page of a program that is read from disk for the first time makes its process wait. Under counted instructions an
//! idle guest's clock leaps to its next timer while the host is still reading, so one such wait may last seconds of guest
//! time, and how many is the host's affair. Seen here: 187 reads when a load generator began took 0.04 s in one trial
//! and 11 s in another, the whole window.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::system::sysinfo;

/// What programs are made of, what matters most first.
const PLACES: [&str; 6] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/libexec",
    "/etc",
    "/usr/share",
];

/// Never read by a server: they would take half of the files and no little time.
const UNREAD: [&str; 5] = [
    "share/doc",
    "share/man",
    "share/info",
    "share/locale",
    "share/zoneinfo",
];

/// The share of free memory that may be filled. The kernel takes it back where a server needs it, at a price.
const SHARE: u64 = 2;

/// Reads programs, libraries and their settings, as far as memory allows.
///
/// A file that cannot be read is left out: whoever needs it will say so.
pub(crate) fn programs() {
    let system = sysinfo();
    let mut room_bytes = system.freeram * u64::from(system.mem_unit) / SHARE;
    for place in PLACES {
        read_all(Path::new(place), &mut room_bytes);
    }
}

fn read_all(place: &Path, room_bytes: &mut u64) {
    let mut entries: Vec<DirEntry> = fs::read_dir(place)
        .map(|entries| entries.flatten().collect())
        .unwrap_or_default();
    // In the same order every time, so that all guests have the same in memory.
    entries.sort_unstable_by_key(DirEntry::file_name);
    for entry in entries {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && !UNREAD.iter().any(|place| entry.path().ends_with(place)) {
            read_all(&entry.path(), room_bytes);
        } else if kind.is_file() {
            *room_bytes = room_bytes.saturating_sub(read(&entry.path(), *room_bytes).unwrap_or(0));
        }
    }
}

/// Reads at most so many bytes of a file, and says how many.
fn read(path: &Path, most: u64) -> io::Result<u64> {
    io::copy(&mut File::open(path)?.take(most), &mut io::sink())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_read_until_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: usize| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![1; bytes]).unwrap();
        };
        write("a/program", 1000);
        write("share/doc/book", 5000);
        write("share/x", 0);
        write("library", 300);
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("endless")).unwrap();
        for (room_bytes, left) in [(2000, 700), (1100, 0)] {
            let mut room_bytes = room_bytes;
            read_all(dir.path(), &mut room_bytes);
            assert_eq!(room_bytes, left);
        }
    }
}
