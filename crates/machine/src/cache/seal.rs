//! What an entry holds, file by file: an entry that was changed is found before it is used.
//!
//! Most names of entries say what an entry was made from, and not what came of it. So each entry has the SHA-256 of its files beside
//! them, written when it is finished. An entry without this list is not finished.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use record::hash;

/// The list's name in an entry.
const FILE: &str = "sums.json";

/// SHA-256 of files, by their paths in the entry.
type Sums = BTreeMap<String, String>;

/// Something in an entry that is not as it was finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A file has another content.
    Changed(String),
    /// A file is gone.
    Gone(String),
    /// A file has come.
    Added(String),
    /// A link, a device or the like lies there.
    NoFile(String),
    /// The list itself cannot be read.
    Unlisted(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(file) => write!(f, "its content has changed: {file}"),
            Self::Gone(file) => write!(f, "a file is gone: {file}"),
            Self::Added(file) => write!(f, "a file has been added: {file}"),
            Self::NoFile(file) => write!(f, "not a regular file: {file}"),
            Self::Unlisted(why) => write!(f, "{FILE} cannot be read: {why}"),
        }
    }
}

/// Finishes an entry. It may hold regular files and directories only.
pub(super) fn close(entry: &Tree) -> Result<()> {
    let mut names = Vec::new();
    for file in files(entry)? {
        match file {
            Found::File(name) => names.push(name),
            Found::Other(name) => {
                bail!("not a regular file: {}", entry.path().join(name).display())
            }
        }
    }
    let text = serde_json::to_vec_pretty(&hash_all(entry, names)?)?;
    entry
        .replace(FILE, &text)
        .with_context(|| format!("cannot write {}", entry.path().join(FILE).display()))
}

/// Whether an entry is finished.
pub(crate) fn is_closed(entry: &Tree) -> bool {
    entry.has_file(FILE)
}

/// What in a finished entry is not as it was finished; nothing where all is.
pub(crate) fn faults(entry: &Tree) -> Result<Vec<Fault>> {
    let list = entry
        .read(FILE, super::NOTE_BYTES)
        .map_err(anyhow::Error::new);
    let list = list.and_then(|text| Ok(serde_json::from_slice::<Sums>(&text)?));
    let sums = match list {
        Ok(sums) => sums,
        Err(why) => return Ok(vec![Fault::Unlisted(format!("{why:#}"))]),
    };
    let (mut faults, mut names) = (Vec::new(), Vec::new());
    for found in files(entry)? {
        match found {
            Found::Other(name) => faults.push(Fault::NoFile(name)),
            Found::File(name) if name == FILE => {}
            Found::File(name) if sums.contains_key(&name) => names.push(name),
            Found::File(name) => faults.push(Fault::Added(name)),
        }
    }
    let actual = hash_all(entry, names)?;
    for (name, sum) in &sums {
        match actual.get(name) {
            Some(actual) if actual == sum => {}
            Some(_) => faults.push(Fault::Changed(name.clone())),
            // What is no regular file any more has been told of.
            None if faults.contains(&Fault::NoFile(name.clone())) => {}
            None => faults.push(Fault::Gone(name.clone())),
        }
    }
    Ok(faults)
}

/// SHA-256 of files of an entry. A file with several names is read once, and several files are read at a time: a run waits for this.
fn hash_all(entry: &Tree, names: Vec<String>) -> Result<Sums> {
    let mut by_file: BTreeMap<(u64, u64), Vec<String>> = BTreeMap::new();
    for name in names {
        let about = entry
            .metadata(&name)
            .with_context(|| cannot_read(entry, &name))?;
        by_file
            .entry((about.dev(), about.ino()))
            .or_default()
            .push(name);
    }
    let files: Vec<Vec<String>> = by_file.into_values().collect();
    let next = AtomicUsize::new(0);
    let hash_some = || -> Result<Sums> {
        let mut sums = Sums::new();
        while let Some(names) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let file = entry.open(&names[0]).and_then(hash::sha256_of);
            let sum = file.with_context(|| cannot_read(entry, &names[0]))?;
            sums.extend(names.iter().map(|name| (name.clone(), sum.clone())));
        }
        Ok(sums)
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(files.len());
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(hash_some)).collect();
        let mut all = Sums::new();
        for thread in started {
            all.extend(thread.join().expect("hashing does not panic")?);
        }
        Ok(all)
    })
}

fn cannot_read(entry: &Tree, name: &str) -> String {
    format!("cannot read {}", entry.path().join(name).display())
}

/// Something below an entry that is no directory.
enum Found {
    File(String),
    Other(String),
}

fn files(entry: &Tree) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        let tree = entry.below(&dir);
        let listed = tree.list();
        for child in listed.with_context(|| format!("cannot read {}", tree.path().display()))? {
            let path = Path::new(&dir).join(&child.name);
            let Some(name) = path.to_str().map(String::from) else {
                bail!(
                    "not a name in UTF-8: {}",
                    tree.path().join(&child.name).display()
                );
            };
            if child.kind.is_dir() {
                dirs.push(name);
            } else if child.kind.is_file() {
                found.push(Found::File(name));
            } else {
                found.push(Found::Other(name));
            }
        }
    }
    Ok(found)
}
