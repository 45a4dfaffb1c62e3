//! Names the build by the content of its sources, so that host and agent know each other.
//!
//! A hash of the finished binary would say the same, but the agent would have to read itself to know it,
//! which costs an emulated guest seconds of every boot.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

fn main() {
    println!("cargo::rerun-if-changed=..");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let mut files = vec![PathBuf::from("../../Cargo.lock")];
    sources(Path::new(".."), &mut files);
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
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

fn sources(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            sources(&path, files);
        } else if path
            .extension()
            .is_some_and(|ending| ["rs", "toml", "c", "h"].iter().any(|own| ending == *own))
        {
            files.push(path);
        }
    }
}
