//! The cache: fetched kernels, built images and initramfses, each under a name made of its content.
//!
//! ```text
//! kernels/ID/    initramfs/ID/    images/ID/     finished entries, never changed
//! builds/ID/                                     where kernels of a source tree are built, which grows
//! names/ID.json, ID.name                         what a name such as debian:bookworm/6.1 stood for
//! used/, runs/                                   who needs which entry (`eviction`)
//! apt/SUITE/                                     private apt roots
//! staging/                                       entries under construction, each under its maker's lock
//! locks/                                         one maker at a time for what is shared
//! ```
//! An entry is made in `staging` and renamed into its place, so that one that is there is whole. The lock
//! on a staging falls with its maker, however that ends; whoever comes next clears the staging away.

pub mod about;
pub mod eviction;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use input::units::show_bytes;
use record::rundir;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::program;
use crate::task::Task;

/// Free space that must remain when something is made: a disk filled to the brim hurts others.
const SPARE_BYTES: u64 = 64 << 20;

/// Entries under construction.
const STAGING: &str = "staging";

/// What earlier versions called it.
const STAGING_BEFORE: &str = "drafts";

/// Tells the staging directories of one process apart.
static NEXT_STAGING: AtomicU32 = AtomicU32::new(0);

/// A cache directory.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    /// Locks on the entries that this cache and its clones have given out: nobody evicts them.
    held: Arc<Mutex<BTreeMap<(String, String), File>>>,
}

impl Cache {
    /// The user's cache: `$XDG_CACHE_HOME/bakeoff`, else `~/.cache/bakeoff`.
    pub fn of_user() -> Result<PathBuf> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        match base {
            Some(base) => Ok(base.join("bakeoff")),
            None => bail!("no home directory (set XDG_CACHE_HOME)"),
        }
    }

    /// Opens a cache at `root` and clears away what interrupted makers left.
    ///
    /// A cache that cannot be written to is no error yet: what it holds can still be used.
    pub fn open(root: &Path) -> Self {
        // The size of a link is not that of what it leads to.
        let root = root.canonicalize().unwrap_or_else(|_| root.into());
        let cache = Self {
            root,
            held: Arc::default(),
        };
        cache.sweep();
        cache
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Fails where there is a cache that cannot be read, such as another user's; none at all is an empty one.
    pub fn refuse_unreadable(&self) -> Result<()> {
        let kinds = fs::read_dir(&self.root).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let read = kinds.and_then(|kinds| {
            let mut dirs = kinds
                .iter()
                .map(fs::DirEntry::path)
                .filter(|path| path.is_dir());
            dirs.try_for_each(|dir| fs::read_dir(dir).map(drop))
        });
        match read {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why).with_context(|| {
                format!(
                    "cannot read the cache: {} (run as its owner, or name another directory with XDG_CACHE_HOME)",
                    self.root.display()
                )
            }),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Bytes on disk of all it holds.
    pub fn size_bytes(&self) -> u64 {
        size_of(&self.root)
    }

    /// A finished entry, if it is there. It stays while this cache or a clone of it lives.
    pub(crate) fn entry(&self, kind: &str, id: &str) -> Option<PathBuf> {
        // Held before it is looked for, or it may be evicted in between.
        self.hold(kind, id);
        let path = self.peek(kind, id);
        if path.is_none() {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.remove(&(kind.to_string(), id.to_string()));
        }
        path
    }

    /// The same for a look alone: it is not held, and does not count as used.
    pub(crate) fn peek(&self, kind: &str, id: &str) -> Option<PathBuf> {
        let path = self.root.join(kind).join(id);
        path.is_dir().then_some(path)
    }

    /// Ids and places of all entries of a kind, likewise for a look alone.
    pub(crate) fn entries(&self, kind: &str) -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(self.root.join(kind)).into_iter().flatten();
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let entries = ids.filter_map(|id| {
            let place = self.peek(kind, &id)?;
            Some((id, place))
        });
        entries.collect()
    }

    /// Kinds and ids of all entries that are held.
    fn held(&self) -> Vec<(String, String)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.keys().cloned().collect()
    }

    /// A cache that cannot be written to is not evicted from either, so that nothing is lost without the lock.
    fn hold(&self, kind: &str, id: &str) {
        let path = self.use_file(kind, id);
        let _ = path.parent().map(fs::create_dir_all);
        let Ok(file) = File::options().append(true).create(true).open(path) else {
            return;
        };
        if file.lock_shared().is_ok() {
            let _ = file.set_modified(SystemTime::now());
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.insert((kind.into(), id.into()), file);
        }
    }

    /// The file whose time says when an entry was last used.
    fn use_file(&self, kind: &str, id: &str) -> PathBuf {
        self.root.join("used").join(kind).join(id)
    }

    /// Begins an entry that will need about `need_bytes`.
    pub(crate) fn staging(&self, need_bytes: u64) -> Result<Staging> {
        self.expect_space(need_bytes)?;
        let parent = self.dir(STAGING)?;
        loop {
            let number = NEXT_STAGING.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{}-{number}", std::process::id()));
            let lock_path = path.with_extension("lock");
            let lock = File::create(&lock_path).map_err(|why| self.cannot_write(&why))?;
            // A sweeper may have taken the lock file between its making and our locking it.
            let ours = lock.try_lock().is_ok()
                && fs::metadata(&lock_path)
                    .is_ok_and(|named| lock.metadata().is_ok_and(|held| named.ino() == held.ino()));
            if ours && fs::create_dir(&path).is_ok() {
                return Ok(Staging {
                    path,
                    lock_path,
                    _lock: lock,
                });
            }
        }
    }

    /// Puts a finished staging into its place; if the entry came into being meanwhile, that one stays.
    pub(crate) fn keep(&self, staging: &Staging, kind: &str, id: &str) -> Result<PathBuf> {
        let place = self.dir(kind)?.join(id);
        self.hold(kind, id);
        match fs::rename(&staging.path, &place) {
            Ok(()) => Ok(place),
            Err(_) if place.is_dir() => Ok(place),
            Err(why) => Err(self.cannot_write(&why)),
        }
    }

    /// What a name stood for when it was last resolved.
    pub(crate) fn recall<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let text = fs::read(self.root.join("names").join(file_name(name))).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Notes what a name stands for.
    pub(crate) fn remember<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let names = self.dir("names")?;
        let staging = self.staging(0)?;
        let file = staging.path.join("name.json");
        write(&file, &serde_json::to_vec_pretty(value)?).map_err(|why| self.cannot_write(&why))?;
        let place = names.join(file_name(name));
        fs::write(place.with_extension("name"), name)
            .and_then(|()| fs::rename(&file, place))
            .map_err(|why| self.cannot_write(&why))
    }

    /// Waits for the lock called `name`, which is held until the result is dropped.
    pub(crate) fn lock(&self, name: &str, task: Task<'_>) -> Result<File> {
        self.lock_for(name, "waiting for another bakeoff", task)
    }

    /// The same, with words for whom it waits for.
    pub(crate) fn lock_for(&self, name: &str, words: &str, task: Task<'_>) -> Result<File> {
        let path = self.dir("locks")?.join(file_name(name));
        let file = File::create(path).map_err(|why| self.cannot_write(&why))?;
        task.wait_for(&file, words)
            .map_err(|why| match why.downcast::<io::Error>() {
                Ok(why) => self.cannot_write(&why),
                Err(why) => why,
            })?;
        Ok(file)
    }

    /// A directory of the cache, made if need be.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(|why| self.cannot_write(&why))?;
        Ok(path)
    }

    /// Fails when the disk has no room for `need_bytes` more.
    pub(crate) fn expect_space(&self, need_bytes: u64) -> Result<()> {
        let free = free_bytes(&self.root)?;
        let need = need_bytes + SPARE_BYTES;
        if free >= need {
            return Ok(());
        }
        bail!(
            "not enough disk space at {}: need {}, have {} (free some, or set XDG_CACHE_HOME to another disk)",
            self.root.display(),
            show_bytes(need),
            show_bytes(free),
        );
    }

    /// The one message for a cache that does not take what it is given.
    pub(crate) fn cannot_write(&self, why: &io::Error) -> anyhow::Error {
        let remedy = match Errno::from_io_error(why) {
            Some(Errno::NOSPC | Errno::DQUOT) => "free some space",
            Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => "make it writable",
            _ => "check the disk",
        };
        anyhow!(
            "cannot write to the cache: {}: {why} ({remedy}, or set XDG_CACHE_HOME to another place)",
            self.root.display()
        )
    }

    /// Clears away staging directories whose makers are gone.
    fn sweep(&self) {
        let folders = [STAGING, STAGING_BEFORE].map(|name| self.root.join(name));
        let files = folders
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flatten();
        for file in files.flatten() {
            let lock_path = file.path();
            if lock_path.extension().is_none_or(|ending| ending != "lock") {
                continue;
            }
            let free = File::open(&lock_path).is_ok_and(|lock| lock.try_lock().is_ok());
            if free {
                remove(&lock_path.with_extension(""));
                let _ = fs::remove_file(&lock_path);
            }
        }
    }
}

/// An entry under construction; cleared away when dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    /// The directory to fill.
    pub(crate) path: PathBuf,
    lock_path: PathBuf,
    // Held for its lock.
    _lock: File,
}

impl Drop for Staging {
    fn drop(&mut self) {
        remove(&self.path);
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// Removes a directory, files of an ordinary user's subordinate ids included; what resists stays for the
/// next sweep.
fn remove(path: &Path) {
    if !path.exists() || fs::remove_dir_all(path).is_ok() {
        return;
    }
    if let Ok(mut rm) = program::enclosed("rm".as_ref()) {
        process::bind(&mut rm);
        let _ = rm.arg("-rf").arg(path).status();
    }
}

fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || ".-+".contains(c) {
            c
        } else {
            '_'
        }
    };
    let readable: String = name.chars().take(60).map(plain).collect();
    format!("{readable}-{}.json", &hash(name.as_bytes())[..12])
}

/// Bytes that an ordinary user may still write where `path` is or would be.
pub(crate) fn free_bytes(path: &Path) -> Result<u64> {
    let there = path
        .ancestors()
        .find(|dir| dir.is_dir())
        .context("no directory to look at")?;
    let disk = rustix::fs::statvfs(there)
        .with_context(|| format!("cannot look at the disk of {}", there.display()))?;
    Ok(disk.f_bavail * disk.f_frsize)
}

/// Bytes on disk of a file or of all below a directory.
pub(crate) fn size_of(path: &Path) -> u64 {
    let Ok(about) = fs::symlink_metadata(path) else {
        return 0;
    };
    let below = match fs::read_dir(path) {
        Ok(files) if about.is_dir() => files.flatten().map(|file| size_of(&file.path())).sum(),
        _ => 0,
    };
    about.blocks() * 512 + below
}

/// Writes a file and makes sure that it is on disk.
pub(crate) fn write(path: &Path, body: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(body)?;
    file.sync_data()
}

/// SHA-256 of bytes, in hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    rundir::sha256(bytes)
}

/// SHA-256 of a file's content, in hexadecimal.
pub fn hash_file(path: &Path) -> Result<String> {
    File::open(path)
        .and_then(rundir::sha256_of)
        .with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        (dir, cache)
    }

    #[test]
    fn a_cache_behind_a_symbolic_link_has_its_size() {
        let (dir, cache) = cache();
        let staging = cache.staging(0).unwrap();
        fs::write(staging.path.join("file"), vec![7; 10_000]).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(cache.root(), &link).unwrap();
        assert!(Cache::open(&link).size_bytes() >= 10_000);
    }

    #[test]
    fn an_entry_is_there_whole_or_not_at_all() {
        let (_dir, cache) = cache();
        let staging = cache.staging(0).unwrap();
        fs::write(staging.path.join("file"), "content").unwrap();
        assert_eq!(cache.entry("kernels", "abc"), None);
        let place = cache.keep(&staging, "kernels", "abc").unwrap();
        drop(staging);
        assert_eq!(cache.entry("kernels", "abc"), Some(place.clone()));
        assert_eq!(fs::read_to_string(place.join("file")).unwrap(), "content");
        assert_eq!(fs::read_dir(cache.root().join(STAGING)).unwrap().count(), 0);
    }

    #[test]
    fn the_first_of_two_makers_wins() {
        let (_dir, cache) = cache();
        for content in ["first", "second"] {
            let staging = cache.staging(0).unwrap();
            fs::write(staging.path.join("file"), content).unwrap();
            cache.keep(&staging, "kernels", "abc").unwrap();
        }
        let file = cache.entry("kernels", "abc").unwrap().join("file");
        assert_eq!(fs::read_to_string(file).unwrap(), "first");
    }

    #[test]
    fn staging_of_the_dead_are_swept_and_those_of_the_living_stay() {
        let (_dir, cache) = cache();
        let living = cache.staging(0).unwrap();
        let dead = cache.root().join("drafts/99-0");
        fs::create_dir_all(dead.join("half")).unwrap();
        fs::write(dead.with_extension("lock"), "").unwrap();
        let again = Cache::open(cache.root());
        assert!(!dead.exists() && !dead.with_extension("lock").exists());
        assert!(living.path.exists());
        drop(again);
    }

    #[test]
    fn a_name_is_remembered() {
        let (_dir, cache) = cache();
        assert_eq!(cache.recall::<String>("debian:bookworm/6.1"), None);
        cache.remember("debian:bookworm/6.1", &"id").unwrap();
        let id = cache.recall::<String>("debian:bookworm/6.1");
        assert_eq!(id.as_deref(), Some("id"));
        assert_eq!(cache.recall::<String>("debian:bookworm/6.12"), None);
    }

    #[test]
    fn a_full_disk_is_told_before_anything_is_made() {
        let (_dir, cache) = cache();
        let why = cache.staging(u64::MAX / 2).unwrap_err().to_string();
        assert!(why.contains("not enough disk space"), "{why}");
        assert!(why.contains("XDG_CACHE_HOME"), "{why}");
    }

    #[test]
    fn a_cache_that_is_no_directory_is_one_clear_message() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let why = Cache::open(&file).staging(0).unwrap_err().to_string();
        assert!(why.starts_with("cannot write to the cache"), "{why}");
    }
}
