//! What the cache holds, who needs it, and what goes when it is too large.
//!
//! ```text
//! used/KIND/ID    when an entry was last used (its time); whoever uses it holds a shared lock on it
//! runs/HASH.json  a run directory and the entries that its journal names by hash
//! ```
//! The least recently used goes first. What somebody uses stays. What a run directory names stays too unless the
//! caller says otherwise: such a run could not go on, as its inputs would be others.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use base::input::tree::Tree;
use base::input::units;
use base::input::units::show_bytes;
use serde::{Deserialize, Serialize};

use super::about::About;
use super::packages::PACKAGES;
use super::{Cache, NOTE_BYTES, file_name, hash, size_of, use_name};

/// What the cache may grow to where nobody says.
const LIMIT_BYTES: u64 = 20 << 30;

/// The variable that says otherwise.
const VARIABLE: &str = "BAKEOFF_CACHE_LIMIT";

/// Directories of the cache that hold no entries.
const NO_KINDS: [&str; 5] = ["staging", "locks", "names", "runs", "used"];

/// An entry, and who needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// `kernels`, `images`, `initramfs`, `builds`, `apt`, `packages`.
    pub kind: String,
    /// Its name within its kind.
    pub id: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// When it was last used, in UTC.
    pub used_at: String,
    /// What it was made from, where that is known.
    pub about: Option<About>,
    /// What plans call it.
    pub names: Vec<String>,
    /// Run directories that name it.
    pub runs: Vec<PathBuf>,
    /// Whether a bakeoff uses it now.
    pub is_in_use: bool,
}

/// Whether entries that run directories name may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// They stay.
    Stay,
    /// They go as the others do.
    MayGo,
}

/// Whether anything is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Entries are removed.
    Remove,
    /// It is only said which would be.
    Tell,
}

/// What pruning came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Entries that are gone, or would be.
    pub removed: Vec<Entry>,
    /// Entries that would have had to go and stay, because they are in use or run directories name them.
    pub kept: Vec<Entry>,
    /// Bytes before.
    pub before_bytes: u64,
    /// Bytes after.
    pub after_bytes: u64,
    /// What was asked for.
    pub limit_bytes: u64,
}

/// A run directory and what its journal names.
#[derive(Debug, Serialize, Deserialize)]
struct RunReference {
    dir: PathBuf,
    entries: Vec<(String, String)>,
}

/// What the cache may grow to: `$BAKEOFF_CACHE_LIMIT`, else 20 GiB.
pub fn limit() -> Result<u64> {
    limit_of(std::env::var_os(VARIABLE).as_deref())
}

pub(crate) fn limit_of(value: Option<&OsStr>) -> Result<u64> {
    let Some(value) = value else {
        return Ok(LIMIT_BYTES);
    };
    let bytes = value.to_str().and_then(|text| units::bytes(text).ok());
    bytes.with_context(|| {
        let value = value.to_string_lossy();
        format!("{VARIABLE} is no size: {value:?} (write one such as 20GiB, or unset it)")
    })
}

/// All that the cache holds, the least recently used first.
pub fn list(cache: &Cache) -> Vec<Entry> {
    let names_by_id = names(cache);
    let runs = runs(cache);
    let mut entries = Vec::new();
    for (kind, id, path) in places(cache) {
        let key = (kind, id);
        let named = names_by_id.get(&key.1).cloned().unwrap_or_default();
        let needed = runs.get(&key).cloned().unwrap_or_default();
        let used = used_at(cache, &key.0, &key.1, &path);
        let is_in_use = cache.is_in_use(&key.0, &key.1);
        let (kind, id) = key;
        entries.push((
            used,
            Entry {
                kind,
                id,
                bytes: size_of(&path),
                used_at: humantime::format_rfc3339_seconds(used).to_string(),
                about: About::of(&path),
                names: named,
                runs: needed.into_iter().collect(),
                is_in_use,
            },
        ));
    }
    entries.sort_by(|(a_used, a), (b_used, b)| {
        (a_used, &a.kind, &a.id).cmp(&(b_used, &b.kind, &b.id))
    });
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Removes the least recently used entries until the cache has `limit_bytes` at the most, as far as they may go.
pub fn prune(cache: &Cache, limit_bytes: u64, named: Named, mode: Mode) -> Result<Pruned> {
    let before_bytes = cache.size_bytes();
    let mut pruned = Pruned {
        before_bytes,
        after_bytes: before_bytes,
        limit_bytes,
        ..Pruned::default()
    };
    if before_bytes <= limit_bytes {
        return Ok(pruned);
    }
    for mut entry in list(cache) {
        if pruned.after_bytes <= limit_bytes {
            break;
        }
        let is_needed = named == Named::Stay && !entry.runs.is_empty();
        if !entry.is_in_use && !is_needed && mode == Mode::Remove {
            // Somebody may have begun to use it since it was listed.
            entry.is_in_use = !remove(cache, &entry.kind, &entry.id)?;
        }
        if !entry.is_in_use && !is_needed {
            pruned.after_bytes = pruned.after_bytes.saturating_sub(entry.bytes);
            pruned.removed.push(entry);
        } else {
            pruned.kept.push(entry);
        }
    }
    Ok(pruned)
}

impl Pruned {
    /// What happened, a line each; nothing where nothing had to go.
    pub fn lines(&self, mode: Mode) -> Vec<String> {
        let removed_as = match mode {
            Mode::Remove => "removed",
            Mode::Tell => "would remove",
        };
        let limit = show_bytes(self.limit_bytes);
        let removed = self.removed.iter().map(|entry| {
            let needed = match entry.runs.as_slice() {
                [] => String::new(),
                runs => format!("; named by {}, which cannot go on", paths(runs)),
            };
            format!(
                "cache: {removed_as} {}, last used {}{needed}",
                entry.line(),
                entry.used_at
            )
        });
        let mut lines: Vec<String> = removed.collect();
        if self.after_bytes > self.limit_bytes {
            lines.push(format!(
                "cache: {} are left, above the limit of {limit}: {}",
                show_bytes(self.after_bytes),
                self.reasons()
            ));
        }
        lines
    }

    /// Why what is left is left.
    fn reasons(&self) -> String {
        let (used, named): (Vec<&Entry>, Vec<&Entry>) =
            self.kept.iter().partition(|entry| entry.is_in_use);
        let mut reasons = Vec::new();
        if !used.is_empty() {
            reasons.push(format!("{} in use", count(&used)));
        }
        if !named.is_empty() {
            reasons.push(format!(
                "{} named by run directories (bakeoff cache list; bakeoff cache prune --named removes these too)",
                count(&named)
            ));
        }
        if reasons.is_empty() {
            return "names, locks and what is being made, no entries".into();
        }
        reasons.join(", ")
    }
}

/// `2 entries of 1.00 GiB`.
fn count(entries: &[&Entry]) -> String {
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let word = if entries.len() == 1 {
        "entry"
    } else {
        "entries"
    };
    format!("{} {word} of {}", entries.len(), show_bytes(bytes))
}

impl Entry {
    /// Kind, title and size.
    pub fn line(&self) -> String {
        let title = self.about.as_ref().map(|about| about.title.as_str());
        let names = self.names.join(", ");
        let title = title.or((!names.is_empty()).then_some(names.as_str()));
        let id: String = self.id.chars().take(12).collect();
        match title {
            Some(title) => format!("{} {title} ({id}, {})", self.kind, show_bytes(self.bytes)),
            None => format!("{} {id} ({})", self.kind, show_bytes(self.bytes)),
        }
    }
}

/// Some paths, as many as a line holds.
fn paths(paths: &[PathBuf]) -> String {
    let shown = paths.iter().take(3).map(|path| path.display().to_string());
    let shown = shown.collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Notes that a run directory names the entries that are held now.
pub fn remember_run(cache: &Cache, dir: &Path) -> Result<()> {
    let dir = fs::canonicalize(dir).with_context(|| format!("cannot find {}", dir.display()))?;
    let runs = cache.dir("runs")?;
    let hash = hash(dir.as_os_str().as_encoded_bytes());
    let name = format!("{hash:.32}.json");
    let mut entries: BTreeSet<(String, String)> = cache.held().into_iter().collect();
    // A run that goes on may stand on an older initramfs as well.
    if let Some(before) = read_reference(&runs, &name) {
        entries.extend(before.entries);
    }
    let reference = RunReference {
        dir,
        entries: entries.into_iter().collect(),
    };
    let text = serde_json::to_vec_pretty(&reference)?;
    runs.replace(name, &text)
        .map_err(|why| cache.cannot_write(&why))
}

fn read_reference(runs: &Tree, name: impl AsRef<Path>) -> Option<RunReference> {
    serde_json::from_slice(&runs.read(name, NOTE_BYTES).ok()?).ok()
}

/// The run directories that are still there, by the entries that they name.
fn runs(cache: &Cache) -> BTreeMap<(String, String), BTreeSet<PathBuf>> {
    let mut runs: BTreeMap<_, BTreeSet<PathBuf>> = BTreeMap::new();
    let tree = cache.tree().below("runs");
    for file in names_in(&tree) {
        let Some(RunReference { dir, entries }) = read_reference(&tree, &file) else {
            continue;
        };
        if !dir.join("journal.jsonl").exists() {
            continue;
        }
        for entry in entries {
            runs.entry(entry).or_default().insert(dir.clone());
        }
    }
    runs
}

/// What plans call entries: `debian:bookworm/6.1`, by the entry's id.
fn names(cache: &Cache) -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let tree = cache.tree().below("names");
    for file in names_in(&tree) {
        let file = Path::new(&file);
        let name = tree.read_to_string(file.with_extension("name"), NOTE_BYTES);
        let id = tree.read(file, NOTE_BYTES).ok();
        let id = id.and_then(|text| serde_json::from_slice::<String>(&text).ok());
        if let (Ok(name), Some(id)) = (name, id)
            && file.extension().is_some_and(|ending| ending == "json")
        {
            names.entry(id).or_default().push(name);
        }
    }
    names
}

/// Names of all that is in a directory.
fn names_in(dir: &Tree) -> Vec<OsString> {
    let entries = dir.list().unwrap_or_default().into_iter();
    entries.map(|entry| entry.name).collect()
}

/// Names of the directories in a directory.
fn dirs_in(dir: &Tree) -> Vec<String> {
    let entries = dir.list().unwrap_or_default().into_iter();
    let dirs = entries.filter(|entry| entry.kind.is_dir());
    dirs.filter_map(|entry| entry.name.into_string().ok())
        .collect()
}

/// Kind, id and place of every entry.
pub(super) fn places(cache: &Cache) -> Vec<(String, String, PathBuf)> {
    let mut places = Vec::new();
    let tree = cache.tree();
    for kind in dirs_in(&tree) {
        let below = tree.below(&kind);
        if NO_KINDS.contains(&kind.as_str()) {
            continue;
        }
        if kind == PACKAGES {
            places.push((kind.clone(), kind, below.path()));
            continue;
        }
        for id in dirs_in(&below) {
            let place = below.path().join(&id);
            places.push((kind.clone(), id, place));
        }
    }
    places
}

/// When an entry was last used; when it was made, where nobody has used it since.
fn used_at(cache: &Cache, kind: &str, id: &str, path: &Path) -> SystemTime {
    let used = cache.tree().metadata(use_name(kind, id)).ok();
    let made = fs::symlink_metadata(path).ok();
    let times = used.into_iter().chain(made);
    let times = times.filter_map(|about| about.modified().ok());
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Removes an entry unless somebody uses it: moved aside first, so that nobody finds half of it.
pub(super) fn remove(cache: &Cache, kind: &str, id: &str) -> Result<bool> {
    let Some(_lock) = cache.lock_to_remove(kind, id) else {
        return Ok(false);
    };
    let place = match kind {
        PACKAGES => kind.to_string(),
        _ => format!("{kind}/{id}"),
    };
    let staging = cache.staging(0)?;
    // Dropping the staging directory removes all that is in it.
    match cache.tree().move_to(place, &staging.tree(), "entry") {
        Ok(()) => Ok(true),
        // Somebody else has removed it just now.
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(why) => Err(cache.cannot_write(&why)),
    }
}

impl Cache {
    /// The name of the file that is locked by whoever uses the entry.
    fn lock_name(kind: &str, id: &str) -> String {
        match kind {
            // Whoever works in a private apt root holds this one.
            "apt" => format!("locks/{}", file_name(&format!("apt {id}"))),
            _ => use_name(kind, id),
        }
    }

    /// Whether somebody uses the entry now. Looking is no use, so nothing is written.
    fn is_in_use(&self, kind: &str, id: &str) -> bool {
        let file = self.tree().open(Self::lock_name(kind, id));
        file.is_ok_and(|file| file.try_lock().is_err())
    }

    /// A lock that nobody gets who uses the entry, or has it made. `None` where somebody does.
    fn lock_to_remove(&self, kind: &str, id: &str) -> Option<File> {
        let file = self.open_lock(&Self::lock_name(kind, id)).ok()?;
        file.try_lock().ok()?;
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::expect;

    use super::*;

    /// A cache with three kernels of 1 MiB each, the first one used longest ago.
    fn cache() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        for (number, id) in ["old", "mid", "new"].into_iter().enumerate() {
            let staging = cache.staging(0).unwrap();
            fs::write(staging.path.join("vmlinuz"), vec![1; 1 << 20]).unwrap();
            About::now(id, "debian:bookworm".into(), Vec::new())
                .write(&cache, &staging.path)
                .unwrap();
            cache.keep(&staging, "kernels", id).unwrap();
            set_used(&cache, id, 100 * (1 + number as u64));
        }
        // Another process: it holds nothing.
        let cache = Cache::open(cache.root());
        (dir, cache)
    }

    fn set_used(cache: &Cache, id: &str, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for path in [
            cache.root().join(use_name("kernels", id)),
            cache.root().join("kernels").join(id),
        ] {
            File::open(path).unwrap().set_modified(time).unwrap();
        }
    }

    fn ids(entries: &[Entry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.id.as_str()).collect()
    }

    /// Room for two kernels and what the cache has beside them.
    fn room(cache: &Cache) -> u64 {
        cache.size_bytes() - (1 << 19)
    }

    #[test]
    fn the_least_recently_used_goes_first_and_only_as_much_as_must() {
        let (_dir, cache) = cache();
        assert_eq!(ids(&list(&cache)), ["old", "mid", "new"]);
        let planned = prune(&cache, room(&cache), Named::Stay, Mode::Tell).unwrap();
        assert_eq!(ids(&planned.removed), ["old"]);
        assert!(
            cache.root().join("kernels/old").exists(),
            "it was only told"
        );
        let pruned = prune(&cache, room(&cache), Named::Stay, Mode::Remove).unwrap();
        assert_eq!(ids(&pruned.removed), ["old"]);
        assert_eq!(ids(&list(&cache)), ["mid", "new"]);
        assert!(
            fs::read_dir(cache.root().join("staging"))
                .unwrap()
                .next()
                .is_none()
        );
        let again = prune(&cache, u64::MAX, Named::Stay, Mode::Remove).unwrap();
        assert_eq!(again.removed, []);
    }

    #[test]
    fn what_is_used_counts_as_new_and_stays_while_it_is_held() {
        let (_dir, cache) = cache();
        let other = Cache::open(cache.root());
        other.entry("kernels", "old").unwrap().unwrap();
        assert_eq!(ids(&list(&cache)), ["mid", "new", "old"]);
        let pruned = prune(&cache, 0, Named::MayGo, Mode::Remove).unwrap();
        assert_eq!(ids(&pruned.removed), ["mid", "new"]);
        assert_eq!(ids(&pruned.kept), ["old"]);
        assert!(pruned.kept[0].is_in_use);
        let text = pruned.lines(Mode::Remove).pop().unwrap();
        assert!(text.ends_with(": 1 entry of 1.01 MiB in use"), "{text}");
        drop(other);
        // A program that another test starts shares the lock until it is executed.
        let pruned = loop {
            let pruned = prune(&cache, 0, Named::MayGo, Mode::Remove).unwrap();
            if pruned.kept.is_empty() {
                break pruned;
            }
            std::thread::yield_now();
        };
        let text = pruned.lines(Mode::Remove).pop().unwrap();
        assert!(
            text.ends_with(": names, locks and what is being made, no entries"),
            "{text}"
        );
        assert_eq!(list(&cache), []);
        assert_eq!(cache.entry("kernels", "old").unwrap(), None);
    }

    #[test]
    fn to_look_at_the_cache_is_not_to_use_it() {
        let (_dir, cache) = cache();
        let file = cache.root().join(use_name("kernels", "never-used"));
        fs::create_dir_all(cache.root().join("kernels/never-used")).unwrap();
        assert_eq!(list(&cache).len(), 4);
        assert!(!file.exists());
    }

    #[test]
    fn what_a_run_directory_names_stays_until_it_is_said_or_the_run_is_gone() {
        let (dir, cache) = cache();
        let run = dir.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("journal.jsonl"), "").unwrap();
        let other = Cache::open(cache.root());
        other.entry("kernels", "old").unwrap().unwrap();
        remember_run(&other, &run).unwrap();
        drop(other);
        set_used(&cache, "old", 1);
        let pruned = prune(&cache, 0, Named::Stay, Mode::Remove).unwrap();
        assert_eq!(
            (ids(&pruned.removed), ids(&pruned.kept)),
            (vec!["mid", "new"], vec!["old"])
        );
        let text = pruned.lines(Mode::Remove).join("\n");
        assert!(
            text.contains(": 1 entry of 1.01 MiB named by run directories ("),
            "{text}"
        );
        assert!(text.contains("prune --named removes these too"), "{text}");
        let planned = prune(&cache, 0, Named::MayGo, Mode::Tell).unwrap();
        let text = planned.lines(Mode::Tell).join("\n");
        assert!(text.starts_with("cache: would remove "), "{text}");
        assert!(text.contains("/run, which cannot go on"), "{text}");
        fs::remove_file(run.join("journal.jsonl")).unwrap();
        let pruned = prune(&cache, 0, Named::Stay, Mode::Remove).unwrap();
        assert_eq!(ids(&pruned.removed), ["old"]);
    }

    #[test]
    fn a_limit_that_is_no_size_is_refused_by_its_variable() {
        assert_eq!(limit_of(None).unwrap(), LIMIT_BYTES);
        assert_eq!(limit_of(Some("5GiB".as_ref())).unwrap(), 5 << 30);
        expect![[
            r#"BAKEOFF_CACHE_LIMIT is no size: "abc" (write one such as 20GiB, or unset it)"#
        ]]
        .assert_eq(&limit_of(Some("abc".as_ref())).unwrap_err().to_string());
    }

    #[test]
    fn an_entry_is_listed_with_what_plans_call_it() {
        let (_dir, cache) = cache();
        cache.remember("debian:bookworm/6.1", &"new").unwrap();
        let entries = list(&cache);
        assert_eq!(entries[2].names, ["debian:bookworm/6.1"]);
        expect!["kernels new (new, 1.01 MiB)"].assert_eq(&entries[2].line());
    }
}
