//! The cache: fetched kernels, built images and initramfses, each under a hash that identifies it.
//!
//! ```text
//! kernels/ID/    initramfs/ID/    images/ID/     finished entries, never changed
//! builds/ID/                                     build directories of kernels, which change
//! names/ID.json, ID.name                         what a name such as debian:bookworm/6.1 was resolved to
//! used/, runs/                                   last use of entries, and runs that need them (`eviction`)
//! apt/SUITE/                                     private apt roots
//! staging/                                       entries under construction, each locked by its maker
//! locks/                                         locks of what is shared
//! ```
//! An entry is made in `staging` and then renamed, so an entry in its place is complete. The lock on a staging directory
//! ends with its maker, however that ends; the next process that opens the cache removes the directory.
//!
//! Everything is checked before use: entries by the SHA-256 of their files (`seal`), kept packages by their suite's
//! signed index (`packages`). Links are never followed.

pub mod about;
pub mod eviction;
pub(crate) mod packages;
mod seal;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use base::arch::Arch;
use base::input::tree::Tree;
use base::input::units::show_bytes;
use record::hash;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::program;
use crate::task::Task;

/// Free space that must remain when something is made: a full disk hurts other programs.
const SPARE_BYTES: u64 = 64 << 20;

/// Longest file that describes an entry or a name, in bytes.
pub(crate) const NOTE_BYTES: u64 = 16 << 20;

/// Entries under construction.
const STAGING: &str = "staging";

/// Numbers the staging directories of this process.
static NEXT_STAGING: AtomicU32 = AtomicU32::new(0);

/// A cache directory.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    /// Architecture of the kernels, packages and images that names mean.
    arch: Arch,
    /// Locks on entries that this cache and its clones have returned, which prevent their eviction.
    held: Arc<Mutex<BTreeMap<(String, String), File>>>,
    /// Entries that this cache and its clones have checked.
    checked: Arc<Mutex<BTreeSet<(String, String)>>>,
}

impl Cache {
    /// Opens the user's cache: `$XDG_CACHE_HOME/bakeoff`, else `~/.cache/bakeoff`. For root, fails if others can write to it.
    pub fn of_user() -> Result<Self> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        let base = base.context("no home directory (set XDG_CACHE_HOME)")?;
        let root = base.join("bakeoff");
        Tree::at(&root)
            .refuse_foreign()
            .context("cannot use the cache (set XDG_CACHE_HOME to another place)")?;
        Ok(Self::open(&root))
    }

    /// Opens a cache at `root` and removes what interrupted makers left.
    ///
    /// Also opens a cache that is not writable, because its entries can be used.
    pub fn open(root: &Path) -> Self {
        // Else its size would be that of a link.
        let root = root.canonicalize().unwrap_or_else(|_| root.into());
        let cache = Self {
            root,
            arch: Arch::HOST,
            held: Arc::default(),
            checked: Arc::default(),
        };
        cache.sweep();
        cache
    }

    /// The same cache, with names of this architecture.
    #[must_use]
    pub fn of_arch(&self, arch: Arch) -> Self {
        Self {
            arch,
            ..self.clone()
        }
    }

    /// Architecture of the kernels, packages and images that names mean.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// A name that is distinct for each architecture; the host's names are as they are.
    pub(crate) fn name_of_arch(&self, name: &str) -> String {
        if self.arch == Arch::HOST {
            name.into()
        } else {
            format!("{name} {}", self.arch)
        }
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn tree(&self) -> Tree {
        Tree::at(&self.root)
    }

    /// Fails if the cache exists but cannot be read, such as another user's.
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

    /// Bytes on disk of the whole cache.
    pub fn size_bytes(&self) -> u64 {
        size_of(&self.root)
    }

    /// A finished entry, if there is one. It is not evicted while this cache or a clone of it lives. Fails if the entry has
    /// changed since it was finished.
    pub(crate) fn entry(&self, kind: &str, id: &str) -> Result<Option<PathBuf>> {
        // Locked before the check, or it may be evicted in between.
        self.hold(kind, id);
        let key = (kind.to_string(), id.to_string());
        let place = self.tree().below(kind).below(id);
        if !seal::is_closed(&place) {
            lock(&self.held).remove(&key);
            return Ok(None);
        }
        if !lock(&self.checked).contains(&key) {
            if let Some(fault) = seal::faults(&place)?.first() {
                bail!(
                    "entry of the cache was changed: {}: {fault} (bakeoff cache verify --remove removes it, and the next run makes it anew)",
                    place.path().display()
                );
            }
            lock(&self.checked).insert(key);
        }
        Ok(Some(place.path()))
    }

    /// A build directory, if there is one. It is held like an entry, but not checked, because its content changes.
    pub(crate) fn work_dir(&self, kind: &str, id: &str) -> Option<PathBuf> {
        self.hold(kind, id);
        let path = self.peek(kind, id);
        if path.is_none() {
            lock(&self.held).remove(&(kind.to_string(), id.to_string()));
        }
        path
    }

    /// The path of an entry, which is neither held nor checked, and does not count as used.
    pub(crate) fn peek(&self, kind: &str, id: &str) -> Option<PathBuf> {
        let place = self.tree().below(kind).below(id);
        place.has_dir("").then(|| place.path())
    }

    /// Ids and paths of all entries of a kind, as `peek` returns them.
    pub(crate) fn entries(&self, kind: &str) -> Vec<(String, PathBuf)> {
        let entries = self.tree().below(kind).list().unwrap_or_default();
        let ids = entries
            .into_iter()
            .filter_map(|entry| entry.name.into_string().ok());
        let entries = ids.filter_map(|id| {
            let place = self.peek(kind, &id)?;
            Some((id, place))
        });
        entries.collect()
    }

    /// Kinds and ids of all entries that are held.
    fn held(&self) -> Vec<(String, String)> {
        lock(&self.held).keys().cloned().collect()
    }

    /// Locks an entry. If the cache is not writable, it needs no lock, because nothing can be evicted either.
    fn hold(&self, kind: &str, id: &str) {
        let Ok(file) = self.open_lock(&use_name(kind, id)) else {
            return;
        };
        if file.lock_shared().is_ok() {
            let _ = file.set_modified(SystemTime::now());
            lock(&self.held).insert((kind.into(), id.into()), file);
        }
    }

    /// Opens a lock file of the cache, or makes it.
    fn open_lock(&self, name: &str) -> io::Result<File> {
        let tree = self.tree();
        if let Some(dir) = Path::new(name).parent() {
            fs::create_dir_all(&self.root)?;
            tree.make_dir(dir)?;
        }
        tree.lock_file(name)
    }

    /// Begins an entry that will need about `need_bytes`.
    ///
    /// # Errors
    /// The cache cannot be written, or the disk has less room.
    pub fn staging(&self, need_bytes: u64) -> Result<Staging> {
        self.expect_space(need_bytes)?;
        let parent = self.dir(STAGING)?;
        loop {
            let number = NEXT_STAGING.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", std::process::id());
            let lock_name = format!("{name}.lock");
            let lock = parent.lock_file(&lock_name);
            let lock = lock.map_err(|why| self.cannot_write(&why))?;
            // Another process may have removed the lock file before this one locked it.
            let named = || parent.metadata(&lock_name).map(|named| named.ino());
            let is_ours = lock.try_lock().is_ok()
                && named().is_ok_and(|named| lock.metadata().is_ok_and(|held| named == held.ino()));
            if is_ours && !parent.has(&name) && parent.make_dir(&name).is_ok() {
                return Ok(Staging {
                    path: parent.path().join(&name),
                    parent,
                    name,
                    _lock: lock,
                });
            }
        }
    }

    /// Moves a finished staging directory to its place. If another process has made the entry meanwhile, that one stays.
    pub(crate) fn keep(&self, staging: &Staging, kind: &str, id: &str) -> Result<PathBuf> {
        let kinds = self.dir(kind)?;
        seal::close(&staging.tree())?;
        self.hold(kind, id);
        let place = kinds.path().join(id);
        let moved = staging.parent.move_to(&staging.name, &kinds, id);
        match moved {
            Ok(()) => {
                lock(&self.checked).insert((kind.into(), id.into()));
                Ok(place)
            }
            Err(_) if kinds.has_dir(id) => {
                let kept = self.entry(kind, id)?;
                kept.with_context(|| {
                    format!("not an entry of the cache: {} (remove it)", place.display())
                })
            }
            Err(why) => Err(self.cannot_write(&why)),
        }
    }

    /// What a name was last resolved to.
    pub(crate) fn recall<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let text = self
            .tree()
            .below("names")
            .read(file_name(&self.name_of_arch(name)), NOTE_BYTES)
            .ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Saves what a name was resolved to.
    pub(crate) fn remember<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let names = self.dir("names")?;
        let name = &self.name_of_arch(name);
        let file = file_name(name);
        let name_file = Path::new(&file).with_extension("name");
        let text = serde_json::to_vec_pretty(value)?;
        self.expect_space(0)?;
        names
            .replace(name_file, name.as_bytes())
            .and_then(|()| names.replace(file, &text))
            .map_err(|why| self.cannot_write(&why))
    }

    /// Waits for the lock called `name`, which is held until the result is dropped.
    pub(crate) fn lock(&self, name: &str, task: Task<'_>) -> Result<File> {
        self.lock_for(name, "waiting for another bakeoff", task)
    }

    /// The same, with the message to report while it waits.
    pub(crate) fn lock_for(&self, name: &str, message: &str, task: Task<'_>) -> Result<File> {
        let file = self
            .open_lock(&format!("locks/{}", file_name(&self.name_of_arch(name))))
            .map_err(|why| self.cannot_write(&why))?;
        task.wait_for(&file, message)
            .map_err(|why| match why.downcast::<io::Error>() {
                Ok(why) => self.cannot_write(&why),
                Err(why) => why,
            })?;
        Ok(file)
    }

    /// A directory of the cache, which is made if it does not exist.
    pub(crate) fn dir(&self, name: &str) -> Result<Tree> {
        fs::create_dir_all(&self.root)
            .and_then(|()| self.tree().make_dir(name))
            .map_err(|why| self.cannot_write(&why))
    }

    /// Fails if the disk has no room for `need_bytes` more.
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

    /// The error for a failed write to the cache, with a remedy.
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

    /// Removes staging directories whose makers are gone.
    fn sweep(&self) {
        let staging = self.tree().below(STAGING);
        for file in staging.list().unwrap_or_default() {
            let Some(name) = file
                .name
                .to_str()
                .and_then(|name| name.strip_suffix(".lock"))
            else {
                continue;
            };
            let lock = staging.open(&file.name);
            if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
                remove(&staging, name);
                let _ = staging.remove_file(&file.name);
            }
        }
    }
}

/// The path in the cache of the file whose modification time is the entry's last use.
fn use_name(kind: &str, id: &str) -> String {
    format!("used/{kind}/{id}")
}

/// Locks a mutex, even after a panic, which leaves these maps valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry under construction; removed when dropped.
#[derive(Debug)]
pub struct Staging {
    /// The directory to fill.
    pub path: PathBuf,
    parent: Tree,
    name: String,
    // Held for its lock.
    _lock: File,
}

impl Staging {
    /// The directory to fill, opened.
    pub fn tree(&self) -> Tree {
        self.parent.below(&self.name)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        remove(&self.parent, &self.name);
        let _ = self.parent.remove_file(format!("{}.lock", self.name));
    }
}

/// Removes a directory, including files of an ordinary user's subordinate ids. What cannot be removed is left for the
/// next sweep.
fn remove(dir: &Tree, name: &str) {
    if dir.remove_all(name).is_ok() {
        return;
    }
    if let Ok(mut rm) = program::enclosed("rm".as_ref()) {
        base::process::bind(&mut rm);
        let _ = rm.arg("-rf").arg(dir.path().join(name)).status();
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
pub fn size_of(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    let below = match fs::read_dir(path) {
        Ok(files) if metadata.is_dir() => files.flatten().map(|file| size_of(&file.path())).sum(),
        _ => 0,
    };
    metadata.blocks() * 512 + below
}

/// Writes a file and makes sure that it is on disk.
pub(crate) fn write(path: &Path, body: &[u8]) -> io::Result<()> {
    let (dir, name) = Tree::around(path);
    dir.replace(name, body)
}

/// SHA-256 of bytes, in hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    hash::sha256(bytes)
}

/// SHA-256 of a file's content, in hexadecimal.
pub fn hash_file(path: &Path) -> Result<String> {
    File::open(path)
        .and_then(hash::sha256_of)
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
        assert_eq!(cache.entry("kernels", "abc").unwrap(), None);
        let place = cache.keep(&staging, "kernels", "abc").unwrap();
        drop(staging);
        let entry = cache.entry("kernels", "abc").unwrap();
        assert_eq!(entry, Some(place.clone()));
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
        let entry = cache.entry("kernels", "abc").unwrap().unwrap();
        let file = entry.join("file");
        assert_eq!(fs::read_to_string(file).unwrap(), "first");
    }

    /// A cache with an entry of two files, as another process finds it after something was done to it.
    fn after(change: impl Fn(&Path)) -> (tempfile::TempDir, Cache) {
        let (dir, cache) = cache();
        let staging = cache.staging(0).unwrap();
        fs::create_dir(staging.path.join("lib")).unwrap();
        fs::write(staging.path.join("vmlinuz"), "right").unwrap();
        fs::write(staging.path.join("lib/module.ko"), "right").unwrap();
        let place = cache.keep(&staging, "kernels", "abc").unwrap();
        change(&place);
        (dir, Cache::open(cache.root()))
    }

    type Change<'c> = &'c dyn Fn(&Path);

    #[test]
    fn an_entry_that_was_changed_is_refused_when_it_is_used_and_found_by_verify() {
        let link = |place: &Path| {
            fs::remove_file(place.join("vmlinuz")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", place.join("vmlinuz")).unwrap();
        };
        let changes: [(&str, Change<'_>); 5] = [
            ("its content has changed: vmlinuz", &|place| {
                fs::write(place.join("vmlinuz"), "wrong").unwrap();
            }),
            ("a file is gone: lib/module.ko", &|place| {
                fs::remove_file(place.join("lib/module.ko")).unwrap();
            }),
            ("a file has been added: lib/evil.ko", &|place| {
                fs::write(place.join("lib/evil.ko"), "").unwrap();
            }),
            ("not a regular file: vmlinuz", &link),
            ("sums.json cannot be read", &|place| {
                fs::write(place.join("sums.json"), "{").unwrap();
            }),
        ];
        let stop = std::sync::atomic::AtomicBool::new(false);
        let task = Task::silent(&stop);
        for (fault, change) in changes {
            let (_dir, cache) = after(change);
            let why = cache.entry("kernels", "abc").unwrap_err().to_string();
            assert!(why.contains(fault), "{why}");
            assert!(why.contains("bakeoff cache verify --remove"), "{why}");
            let again = Cache::open(cache.root());
            let result = verify::verify(&again, verify::Wrong::Stays, task).unwrap();
            assert_eq!((result.good, result.findings.len()), (0, 1));
            assert!(result.findings[0].what.contains(fault), "{result:?}");
            // Whoever uses it would be left without it.
            let result = verify::verify(&again, verify::Wrong::IsRemoved, task).unwrap();
            assert!(!result.findings[0].is_removed);
            drop(cache);
            let result = verify::verify(&again, verify::Wrong::IsRemoved, task).unwrap();
            assert!(result.findings[0].is_removed);
            assert_eq!(again.entry("kernels", "abc").unwrap(), None);
        }
        let (_dir, cache) = after(|_| {});
        assert!(cache.entry("kernels", "abc").unwrap().is_some());
        let result = verify::verify(&cache, verify::Wrong::Stays, task).unwrap();
        assert_eq!((result.good, result.findings.len()), (1, 0));
    }

    #[test]
    fn what_is_no_regular_file_does_not_become_an_entry_and_no_id_leads_out() {
        let (_dir, cache) = cache();
        let staging = cache.staging(0).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", staging.path.join("vmlinuz")).unwrap();
        let why = cache.keep(&staging, "kernels", "abc").unwrap_err();
        assert!(why.to_string().starts_with("not a regular file: "), "{why}");
        for id in ["../kernels/abc", "/etc", ".."] {
            assert_eq!(cache.peek("kernels", id), None, "{id}");
            assert_eq!(cache.entry("kernels", id).unwrap(), None, "{id}");
        }
    }

    #[test]
    fn staging_of_the_dead_are_swept_and_those_of_the_living_stay() {
        let (_dir, cache) = cache();
        let living = cache.staging(0).unwrap();
        let dead = cache.root().join(STAGING).join("99-0");
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
