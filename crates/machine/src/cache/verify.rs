//! All that the cache holds, compared with what its names, its lists of sums and the signed indexes say.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use base::arch::Arch;
use serde::Serialize;

use super::eviction::{places, remove};
use super::packages::{self, PACKAGES};
use super::{Cache, seal};
use crate::apt::{SUITES, Suite};
use crate::task::Task;

/// Something that may not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadEntry {
    /// The entry, the package or the index.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// Whether it is gone now.
    pub is_removed: bool,
}

/// What checking all came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Entries, kept packages and indexes that are as they should be.
    pub good: u32,
    /// Kept packages that no index here names. They are not used until one does.
    pub unknown: u32,
    /// What is not.
    pub findings: Vec<BadEntry>,
}

/// What becomes of what is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It stays.
    Stays,
    /// It is removed, unless somebody uses it.
    IsRemoved,
}

/// Checks all that the cache holds.
pub fn verify(cache: &Cache, wrong: Wrong, task: Task<'_>) -> Result<Verified> {
    let mut verified = Verified::default();
    let mut sums = BTreeMap::new();
    let all = Arch::ALL.map(|arch| cache.of_arch(arch));
    let suites = all
        .iter()
        .flat_map(|cache| SUITES.map(|suite| (cache, suite)));
    for (cache, suite) in suites.filter(|(cache, suite)| Suite::is_indexed(cache, suite)) {
        let suite_of_arch = cache.name_of_arch(suite);
        task.tell(&format!("checking the index of {suite_of_arch}"), None);
        let listed = index(cache, suite, task);
        task.go_on()?;
        match listed {
            Ok(index) => {
                verified.good += 1;
                let all = packages::sums(&index, cache.arch()).into_iter();
                // Two suites have one version of a package in the same file.
                sums.extend(all.map(|(file, sum)| (file, sum.to_string())));
            }
            Err(why) => verified.note(cache, "apt", &suite_of_arch, &format!("{why:#}"), wrong)?,
        }
    }
    check_packages(cache, &sums, wrong, task, &mut verified)?;
    for (kind, id, place) in places(cache) {
        // Those change all the time, and packages are checked already.
        if ["apt", "builds", PACKAGES].contains(&kind.as_str()) {
            continue;
        }
        task.go_on()?;
        task.tell(&format!("checking {kind} {id:.12}"), None);
        let entry = cache.tree().below(&kind).below(&id);
        let what = if seal::is_closed(&entry) {
            let faults = seal::faults(&entry)?;
            let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
            lines.join("; ")
        } else {
            "it has no list of its files: it was not finished, or another version of bakeoff made it".into()
        };
        debug_assert_eq!(entry.path(), place);
        if what.is_empty() {
            verified.good += 1;
        } else {
            verified.note(cache, &kind, &id, &what, wrong)?;
        }
    }
    Ok(verified)
}

fn index(cache: &Cache, suite: &str, task: Task<'_>) -> Result<Vec<crate::apt::Package>> {
    let _lock = cache.lock(&format!("apt {suite}"), task)?;
    Suite::open(cache, suite, false, task)?.packages(&[""], task)
}

fn check_packages(
    cache: &Cache,
    sums: &BTreeMap<String, String>,
    wrong: Wrong,
    task: Task<'_>,
    verified: &mut Verified,
) -> Result<()> {
    let kept = cache.tree().below(PACKAGES);
    task.tell("checking kept packages", None);
    for file in packages::names(&kept) {
        task.go_on()?;
        let actual = kept.open(&file).and_then(record::hash::sha256_of)?;
        match sums.get(&file) {
            None => verified.unknown += 1,
            Some(sum) if *sum == actual => verified.good += 1,
            Some(_) => {
                let is_removed = wrong == Wrong::IsRemoved;
                if is_removed {
                    kept.remove_file(&file)?;
                }
                verified.findings.push(BadEntry {
                    path: kept.path().join(&file),
                    what: format!("it is not the package of the signed index: SHA-256 {actual}"),
                    is_removed,
                });
            }
        }
    }
    Ok(())
}

impl Verified {
    fn note(
        &mut self,
        cache: &Cache,
        kind: &str,
        id: &str,
        what: &str,
        wrong: Wrong,
    ) -> Result<()> {
        let is_removed = wrong == Wrong::IsRemoved && remove(cache, kind, id)?;
        self.findings.push(BadEntry {
            path: cache.tree().below(kind).below(id).path(),
            what: what.into(),
            is_removed,
        });
        Ok(())
    }
}
