//! Names the build by the content of its sources, so that host and agent know each other.
//!
//! A hash of the finished binary would say the same, but the agent would have to read itself to know it,
//! which costs an emulated guest seconds of every boot. Tests are no part of the build: whoever edits one keeps the
//! binary, and with it every initramfs in the cache.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Directories and files that are in no binary.
const NOT_BUILT: [&str; 4] = ["tests", "tests.rs", "benches", "examples"];

fn main() {
    let mut files = vec![PathBuf::from("../../Cargo.lock")];
    sources(Path::new(".."), &mut files);
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        hash.update(file.as_os_str().as_encoded_bytes());
        // A source tree without a lock file (an unpacked package) is still a build.
        hash.update(fs::read(file).unwrap_or_default());
    }
    let digest = hash.finalize();
    let name = digest
        .iter()
        .take(6)
        .fold(0u64, |name, byte| name << 8 | u64::from(*byte));
    println!("cargo::rustc-env=BAKEOFF_BUILD={name:012x}");
}

/// Adds the sources below a directory. One that is new is named in another that has changed for it.
fn sources(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if NOT_BUILT.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|ending| {
            ["rs", "toml", "c", "h"]
                .iter()
                .any(|known| ending == *known)
        }) {
            files.push(path);
        }
    }
}
