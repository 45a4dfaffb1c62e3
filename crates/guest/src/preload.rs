//! Reads the image's programs into memory before time is measured.
//!
//! A process waits for each page of a program that is read from disk for the first time. Under counted instructions,
//! an idle guest's clock leaps to its next timer while the host is still reading, so such a wait may last seconds of
//! guest time, and varies with the host. Measured: 187 reads as a load generator began took 0.04 s in one trial and
//! 11 s, the whole window, in another.
//!
//! Before services start, a guest reads the programs that the workload names. Once they answer, it reads every file
//! whose code they have mapped, such as modules of an arm's configuration. The whole image of the web servers would take
//! 2.5 s in an emulator.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, File};
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use profiler::elf;
use rustix::fs::{Advice, fadvise, sendfile};
use rustix::system::sysinfo;
use workload::Programs;

use crate::code::code_of_files;

/// Directories of programs and their files, the most important first.
const DIRECTORIES: [&str; 6] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/libexec",
    "/etc",
    "/usr/share",
];

/// Where the dynamic linker finds libraries on Debian.
const LIBRARIES: [&str; 3] = [MULTIARCH, "/usr/lib64", "/usr/lib"];
const MULTIARCH: &str = if cfg!(target_arch = "aarch64") {
    "/usr/lib/aarch64-linux-gnu"
} else {
    "/usr/lib/x86_64-linux-gnu"
};

/// Directories that servers never read; they have half of all files.
const UNREAD: [&str; 5] = [
    "share/doc",
    "share/man",
    "share/info",
    "share/locale",
    "share/zoneinfo",
];

/// Files that are requested from the disk together, far fewer than the limit of open files.
const AT_ONCE: usize = 64;

/// At most one part in this many of free memory is filled: it costs the kernel time to reclaim it for a server.
const SHARE: u64 = 2;

/// Reads programs and libraries, as far as memory allows. Skips files that cannot be read.
pub(crate) fn programs(programs: &Programs) {
    let mut reader = Reader::new();
    match programs {
        Programs::All => {
            for directory in DIRECTORIES {
                reader.read_directory(Path::new(directory));
            }
        }
        Programs::These(paths) => {
            let mut files = BTreeSet::new();
            for path in paths.iter().map(Path::new) {
                if path.is_dir() {
                    reader.read_directory(path);
                } else {
                    add_linked(path, &mut files);
                }
            }
            reader.read_files(&Vec::from_iter(files));
        }
    }
}

/// Reads the files whose code processes have mapped.
pub(crate) fn mapped_by(processes: impl Iterator<Item = i32>) {
    let mut files = BTreeSet::new();
    for process in processes {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let paths = code_of_files(&maps).map(|region| PathBuf::from(region.path));
        files.extend(paths.filter(|path| path.is_file()));
    }
    Reader::new().read_files(&Vec::from_iter(files));
}

/// Adds a program and the libraries that it is linked with.
fn add_linked(file: &Path, files: &mut BTreeSet<PathBuf>) {
    if files.contains(file) {
        return;
    }
    let Ok(body) = fs::read(file) else {
        return;
    };
    files.insert(file.into());
    for library in elf::needed(&body) {
        let places = LIBRARIES
            .iter()
            .map(|place| Path::new(place).join(&library));
        if let Some(path) = places.into_iter().find(|path| path.exists()) {
            add_linked(&path, files);
        }
    }
}

/// Reads files until its share of memory is filled.
struct Reader {
    dev_null: Option<File>,
    room_bytes: u64,
}

impl Reader {
    fn new() -> Self {
        let system = sysinfo();
        Self {
            dev_null: File::options().write(true).open("/dev/null").ok(),
            room_bytes: system.freeram * u64::from(system.mem_unit) / SHARE,
        }
    }

    fn read_directory(&mut self, directory: &Path) {
        let mut entries: Vec<DirEntry> = fs::read_dir(directory)
            .map(|entries| entries.flatten().collect())
            .unwrap_or_default();
        // In a fixed order, so that all guests have the same files in memory.
        entries.sort_unstable_by_key(DirEntry::file_name);
        let mut files = Vec::new();
        for entry in entries {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() && !UNREAD.iter().any(|place| entry.path().ends_with(place)) {
                self.read_directory(&entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
        self.read_files(&files);
    }

    fn read_files(&mut self, paths: &[PathBuf]) {
        for chunk in paths.chunks(AT_ONCE) {
            self.read_together(chunk);
        }
    }

    /// Requests all of these files from the disk before it waits for the first.
    fn read_together(&mut self, paths: &[PathBuf]) {
        let mut files = Vec::new();
        for path in paths {
            let Ok(file) = File::open(path) else {
                continue;
            };
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            let most = length.min(self.room_bytes);
            if let Some(wanted) = NonZeroU64::new(most) {
                let _ = fadvise(&file, 0, Some(wanted), Advice::WillNeed);
                self.room_bytes -= most;
                files.push((file, most));
            }
        }
        let Some(dev_null) = &self.dev_null else {
            return;
        };
        for (file, most) in files {
            let _ = read(&file, dev_null, most);
        }
    }
}

/// Reads at most `most` bytes of a file, without copying them to this process.
fn read(file: &File, dev_null: &File, most: u64) -> io::Result<()> {
    let mut done = 0;
    while done < most {
        let left = usize::try_from(most - done).unwrap_or(usize::MAX);
        match sendfile(dev_null, file, None, left)? {
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
        for (room_bytes, left) in [(2000, 700), (1100, 0)] {
            let mut reader = Reader {
                room_bytes,
                ..Reader::new()
            };
            reader.read_directory(dir.path());
            assert_eq!(reader.room_bytes, left);
        }
    }

    #[test]
    fn a_program_comes_with_the_libraries_that_it_is_linked_with() {
        let mut files = BTreeSet::new();
        add_linked(Path::new("/usr/bin/ls"), &mut files);
        let names: Vec<_> = files.iter().filter_map(|path| path.file_name()).collect();
        assert!(names.contains(&"ls".as_ref()) && names.contains(&"libc.so.6".as_ref()));
        // With libraries of libraries: ls needs PCRE only through SELinux's.
        assert!(names.len() > 3, "{names:?}");
    }
}
