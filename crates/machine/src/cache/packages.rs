//! Packages that an image was made of, kept for the next image. Each is compared with the signed index of its suite before it is used:
//! apt itself looks at no more than the size of a file that is there already.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base::arch::Arch;
use base::input::tree::Tree;
use record::hash;

use super::Cache;
use crate::apt::Package;
use crate::task::Task;

/// Their directory in the cache.
pub(crate) const PACKAGES: &str = "packages";

/// Copies into `into` the kept packages that the index names. What it does not name is left out: the mirror has other versions now.
pub(crate) fn offer(cache: &Cache, index: &[Package], into: &Tree, task: Task<'_>) -> Result<()> {
    let sums = sums(index, cache.arch());
    let kept = cache.tree().below(PACKAGES);
    task.tell("checking kept packages", None);
    for file in names(&kept) {
        task.go_on()?;
        let Some(sum) = sums.get(&file) else {
            continue;
        };
        let mut copy = into.create(&file).map_err(|why| cache.cannot_write(&why))?;
        let read = Copying {
            from: kept.open(&file)?,
            to: &mut copy,
        };
        // The copy is what was hashed, whatever becomes of the kept file.
        let actual = hash::sha256_of(read)
            .with_context(|| format!("cannot copy {}", kept.path().join(&file).display()))?;
        if actual != **sum {
            bail!(
                "kept package is not the one of the signed index: {}: SHA-256 {actual} (bakeoff cache verify --remove removes it, and the next \
                 build fetches it anew)",
                kept.path().join(&file).display()
            );
        }
    }
    Ok(())
}

/// Keeps the packages of a directory, which apt has fetched and checked.
pub(crate) fn keep(cache: &Cache, from: &Tree) -> Result<()> {
    let kept = cache.dir(PACKAGES)?;
    for file in names(from) {
        if !kept.has(&file) {
            from.move_to(&file, &kept, &file)
                .map_err(|why| cache.cannot_write(&why))?;
        }
    }
    Ok(())
}

/// Whether any package is kept.
pub(crate) fn are_there(cache: &Cache) -> bool {
    !names(&cache.tree().below(PACKAGES)).is_empty()
}

/// SHA-256 of the packages in a directory, by the names of their files.
pub(crate) fn hashes(dir: &Path) -> Result<BTreeMap<String, String>> {
    let dir = Tree::at(dir);
    let mut hashes = BTreeMap::new();
    for name in names(&dir) {
        let sum = dir.open(&name).and_then(hash::sha256_of)?;
        hashes.insert(name, sum);
    }
    Ok(hashes)
}

/// SHA-256 of the packages of an index, by the names of their files.
pub(super) fn sums(index: &[Package], arch: Arch) -> BTreeMap<String, &str> {
    let files = index.iter().flat_map(|package| {
        let start = file_start(&package.name, &package.version);
        [arch.facts().debian(), "all"]
            .map(|of| (format!("{start}{of}.deb"), package.sha256.as_str()))
    });
    files.collect()
}

/// How the name of a package's file begins, as apt writes it: an epoch's colon is escaped.
pub(crate) fn file_start(name: &str, version: &str) -> String {
    format!("{name}_{}_", version.replace(':', "%3a"))
}

/// Names of the files of packages in a directory.
pub(super) fn names(dir: &Tree) -> Vec<String> {
    let entries = dir.list().unwrap_or_default().into_iter();
    let files = entries.filter(|entry| entry.kind.is_file());
    let names = files.filter_map(|entry| entry.name.into_string().ok());
    let is_package = |name: &String| {
        Path::new(name)
            .extension()
            .is_some_and(|ending| ending == "deb")
    };
    names.filter(is_package).collect()
}

/// Writes what is read from a file into another.
struct Copying<'c, R, W> {
    from: R,
    to: &'c mut W,
}

impl<R: io::Read, W: io::Write> io::Read for Copying<'_, R, W> {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(piece)?;
        self.to.write_all(&piece[..length])?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn package(name: &str, version: &str, content: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            depends: String::new(),
            sha256: super::super::hash(content.as_bytes()),
            bytes: content.len() as u64,
            installed_bytes: 1,
        }
    }

    #[test]
    fn a_kept_package_is_used_only_if_it_is_the_one_of_the_signed_index() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache"));
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        let fetched = dir.path().join("fetched");
        fs::create_dir(&fetched).unwrap();
        fs::write(fetched.join("nginx_1%3a1.22-9_amd64.deb"), "right").unwrap();
        fs::write(fetched.join("nginx_1%3a1.20-1_amd64.deb"), "of last year").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", fetched.join("libc6_2.36_amd64.deb")).unwrap();
        keep(&cache, &Tree::at(&fetched)).unwrap();
        assert!(are_there(&cache));

        let index = [
            package("nginx", "1:1.22-9", "right"),
            package("libc6", "2.36", "x"),
        ];
        let offered = |name: &str| {
            let into = dir.path().join(name);
            fs::create_dir(&into).unwrap();
            let offered = offer(&cache, &index, &Tree::at(&into), task);
            offered.map(|()| hashes(&into).unwrap())
        };
        // Neither what the mirror has no more, nor a link.
        let package = [("nginx_1%3a1.22-9_amd64.deb".into(), index[0].sha256.clone())];
        assert_eq!(offered("first").unwrap(), package.into());

        // Another content of the same size, which apt would install.
        let kept = cache.root().join("packages/nginx_1%3a1.22-9_amd64.deb");
        fs::write(kept, "wrong").unwrap();
        let why = offered("second").unwrap_err().to_string();
        assert!(
            why.starts_with("kept package is not the one of the signed index: "),
            "{why}"
        );
    }
}
