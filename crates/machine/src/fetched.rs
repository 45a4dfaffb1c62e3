//! A QEMU of the Debian release that has a good one, brought into the cache by apt and run from there.
//!
//! ```text
//! signed index -> qemu-system-ARCH and all that it depends on -> packages -> qemu/ID/usr/...
//! ```
//! Nothing is installed: the tree brings the loader and the C library that it was built for, so it runs on any host whose
//! kernel is not older than they are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use serde::{Deserialize, Serialize};

use crate::apt::{Package, Suite};
use crate::cache;
use crate::cache::Cache;
use crate::emulator;
use crate::emulator::{Launch, Program};
use crate::kernel;
use crate::task::Task;

/// The suite that it is taken from: stable, so that it is mended, and that Debian 13 hosts have the same.
pub const SUITE: &str = "trixie";

/// Under what its identity is remembered.
const NAME: &str = "qemu";

/// Kind of the cache's entries.
const KIND: &str = "qemu";

/// Emulators of single programs, with which foreign packages are installed in an image.
const USER_EMULATORS: &str = "qemu-user";

/// The emulator of single programs in an unpacked tree.
pub(crate) fn user_emulator(root: &Path, arch: Arch) -> PathBuf {
    root.join(format!("usr/bin/qemu-{arch}"))
}

/// Paths that are kept of the packages; documentation, translations and tools of other packages are not.
fn kept(arch: Arch) -> Vec<PathBuf> {
    let root = Path::new("");
    let mut kept = vec![system_emulator(root, arch), emulator::tree_libraries(root)];
    kept.extend(arch.facts().firmware().iter().map(PathBuf::from));
    if arch != Arch::HOST {
        kept.push(user_emulator(root, arch));
    }
    kept
}

fn system_emulator(root: &Path, arch: Arch) -> PathBuf {
    root.join("usr/bin").join(arch.facts().emulator().0)
}

/// What an entry was made from.
#[derive(Debug, Serialize, Deserialize)]
struct Origin {
    suite: String,
    /// `name=version`, sorted.
    packages: Vec<String>,
}

/// The fetched QEMU, if there is one.
///
/// # Errors
/// It was changed since it was fetched.
pub fn known(cache: &Cache, task: Task<'_>) -> Result<Option<Program>> {
    let Some(id) = cache.recall::<String>(NAME) else {
        return Ok(None);
    };
    let root = cache.entry(KIND, &id)?;
    Ok(root.and_then(|root| open(&root, cache.arch(), task).ok()))
}

/// The unpacked tree of the fetched QEMU, which is fetched if it is missing.
pub(crate) fn root(cache: &Cache, task: Task<'_>) -> Result<PathBuf> {
    match fetch(cache, false, task)?.launch {
        Launch::Tree(root) => Ok(root),
        Launch::Direct => bail!("the fetched QEMU is not in a tree"),
    }
}

/// Brings QEMU into the cache unless it is there; `refresh` looks for a newer one.
pub fn fetch(cache: &Cache, refresh: bool, task: Task<'_>) -> Result<Program> {
    if let (Some(program), false) = (known(cache, task)?, refresh) {
        return Ok(program);
    }
    let _lock = cache
        .of_arch(Arch::HOST)
        .lock(&format!("apt {SUITE}"), task)?;
    let root = match bring(cache, refresh, task) {
        // An index of last month names packages that the mirror has replaced since.
        Err(_) if !refresh && !task.is_stopped() => bring(cache, true, task),
        brought => brought,
    }
    .with_context(|| format!("cannot fetch QEMU from Debian {SUITE}"))?;
    open(&root, cache.arch(), task)
}

fn open(root: &Path, arch: Arch, task: Task<'_>) -> Result<Program> {
    let launch = Launch::Tree(root.into());
    emulator::open(&system_emulator(root, arch), arch, launch, task)
}

fn bring(cache: &Cache, refresh: bool, task: Task<'_>) -> Result<PathBuf> {
    // The emulator is a program of this host, whatever its guests are.
    let index = Suite::open(&cache.of_arch(Arch::HOST), SUITE, refresh, task)?;
    task.tell("looking for QEMU", None);
    let mut wanted = vec![cache.arch().facts().emulator().1];
    if cache.arch() != Arch::HOST {
        wanted.push(USER_EMULATORS);
    }
    let names = index.closure(&wanted, task)?;
    let packages = select(&index.packages(&[""], task)?, &names)?;
    let id = kernel::identity(packages.iter().map(|package| package.sha256.as_str()));
    let root = match cache.entry(KIND, &id)? {
        Some(root) => root,
        None => download(cache, &index, &packages, &names, &id, task)?,
    };
    cache.remember(NAME, &id)?;
    Ok(root)
}

/// The packages of these names and versions, in the same order.
fn select(index: &[Package], names: &[String]) -> Result<Vec<Package>> {
    let find = |name: &String| {
        let is_it = |package: &&Package| format!("{}={}", package.name, package.version) == *name;
        index.iter().find(is_it).cloned()
    };
    let mut packages = Vec::new();
    for name in names {
        match find(name) {
            Some(package) => packages.push(package),
            None => bail!("package is not in the index: {name} (use --refresh)"),
        }
    }
    Ok(packages)
}

fn download(
    cache: &Cache,
    index: &Suite,
    packages: &[Package],
    names: &[String],
    id: &str,
    task: Task<'_>,
) -> Result<PathBuf> {
    let bytes = packages
        .iter()
        .map(|package| package.bytes + package.installed_bytes)
        .sum();
    let fetched = cache.staging(bytes)?;
    let entry = cache.staging(0)?;
    index.download(packages, &fetched.path, task)?;
    kernel::unpack(&kernel::files_in(&fetched.path)?, &fetched.path, task)?;
    for name in kept(cache.arch()) {
        let (from, to) = (
            fetched.path.join("root").join(&name),
            entry.path.join(&name),
        );
        let parent = to.parent().expect("what is kept lies in a directory");
        fs::create_dir_all(parent)
            .and_then(|()| fs::rename(&from, &to))
            .map_err(|why| cache.cannot_write(&why))?;
    }
    let origin = Origin {
        suite: SUITE.into(),
        packages: names.into(),
    };
    cache::write(
        &entry.path.join("origin.json"),
        &serde_json::to_vec_pretty(&origin)?,
    )
    .map_err(|why| cache.cannot_write(&why))?;
    // What does not start is not kept.
    open(&entry.path, cache.arch(), task)?;
    cache.keep(&entry, KIND, id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            depends: String::new(),
            sha256: format!("{name}{version}"),
            bytes: 1,
            installed_bytes: 1,
        }
    }

    #[test]
    fn packages_are_taken_in_the_version_that_apt_chose() {
        let index = [
            package("libc6", "2.41-12"),
            package("libc6", "2.36-9"),
            package("seabios", "1"),
        ];
        let chosen = select(&index, &["seabios=1".into(), "libc6=2.36-9".into()]).unwrap();
        assert_eq!(
            chosen,
            [package("seabios", "1"), package("libc6", "2.36-9")]
        );
        let why = select(&index, &["libc6=3".into()]).unwrap_err().to_string();
        assert!(
            why.starts_with("package is not in the index: libc6=3"),
            "{why}"
        );
    }
}
