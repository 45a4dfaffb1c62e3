//! Reading the image's programs into memory before there is a clock to keep.
//!
//! A page of a program that is read from disk for the first time makes its process wait. Under counted instructions an
//! idle guest's clock leaps to its next timer while the host is still reading, so one such wait may last seconds of guest
//! time, and how many is the host's affair. Seen here: 187 reads when a load generator began took 0.04 s in one trial
//! and 11 s in another, the whole window.

use std::fs::{self, DirEntry, File};
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, sendfile};
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

/// Files that the disk is asked for at once. They are open meanwhile, so it stays far below the limit of open files.
const AT_ONCE: usize = 64;

/// The share of free memory that may be filled. The kernel takes it back where a server needs it, at a price.
const SHARE: u64 = 2;

/// Reads programs, libraries and their settings, as far as memory allows.
///
/// A file that cannot be read is left out: whoever needs it will say so.
pub(crate) fn programs() {
    let system = sysinfo();
    let mut room_bytes = system.freeram * u64::from(system.mem_unit) / SHARE;
    let Ok(nowhere) = File::options().write(true).open("/dev/null") else {
        return;
    };
    for place in PLACES {
        read_all(Path::new(place), &nowhere, &mut room_bytes);
    }
}

fn read_all(place: &Path, nowhere: &File, room_bytes: &mut u64) {
    let mut entries: Vec<DirEntry> = fs::read_dir(place)
        .map(|entries| entries.flatten().collect())
        .unwrap_or_default();
    // In the same order every time, so that all guests have the same in memory.
    entries.sort_unstable_by_key(DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && !UNREAD.iter().any(|place| entry.path().ends_with(place)) {
            read_all(&entry.path(), nowhere, room_bytes);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    for some in files.chunks(AT_ONCE) {
        read_together(some, nowhere, room_bytes);
    }
}

/// Asks the disk for all of these files before it waits for the first.
fn read_together(paths: &[PathBuf], nowhere: &File, room_bytes: &mut u64) {
    let mut files = Vec::new();
    for path in paths {
        let Ok(file) = File::open(path) else {
            continue;
        };
        let length = file.metadata().map_or(0, |about| about.len());
        let most = length.min(*room_bytes);
        if let Some(wanted) = NonZeroU64::new(most) {
            let _ = fadvise(&file, 0, Some(wanted), Advice::WillNeed);
            *room_bytes -= most;
            files.push((file, most));
        }
    }
    for (file, most) in files {
        let _ = read(&file, nowhere, most);
    }
}

/// Reads so many bytes of a file, fewer where it is shorter by now. They are not copied to this process.
fn read(file: &File, nowhere: &File, most: u64) -> io::Result<()> {
    let mut done = 0;
    while done < most {
        let some = usize::try_from(most - done).unwrap_or(usize::MAX);
        match sendfile(nowhere, file, None, some)? {
            0 => break,
            sent => done += sent as u64,
        }
    }
    Ok(())
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
        let nowhere = File::options().write(true).open("/dev/null").unwrap();
        for (room_bytes, left) in [(2000, 700), (1100, 0)] {
            let mut room_bytes = room_bytes;
            read_all(dir.path(), &nowhere, &mut room_bytes);
            assert_eq!(room_bytes, left);
        }
    }
}
