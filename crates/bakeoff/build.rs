//! Makes the build id from the content of the sources, so that host and agent can check that they match.
//!
//! A hash of the binary would also do, but the agent would have to read its own binary, which takes seconds of each boot in
//! an emulated guest. Tests are excluded: after a change of a test, the binary and every initramfs in the cache stay valid.
//!
//! A release build also gets the commit, for `--version`. A debug build does not, because each commit would compile it again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use sha2::{Digest, Sha256};

/// Directories and files that are not part of the binary.
const NOT_BUILT: [&str; 4] = ["tests", "tests.rs", "benches", "examples"];

fn main() {
    let mut files = vec![PathBuf::from("../../Cargo.lock")];
    sources(Path::new(".."), &mut files);
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        hash.update(file.as_os_str().as_encoded_bytes());
        // Without the lock file, as in an unpacked package, hash only the path.
        hash.update(fs::read(file).unwrap_or_default());
    }
    let digest = hash.finalize();
    let build_id = digest
        .iter()
        .take(6)
        .fold(0u64, |id, byte| id << 8 | u64::from(*byte));
    println!("cargo::rustc-env=BAKEOFF_BUILD={build_id:012x}");
    let commit = match env::var("PROFILE").as_deref() {
        Ok("debug") => "debug".into(),
        _ => format!("commit {}", commit().unwrap_or("unknown".into())),
    };
    println!("cargo::rustc-env=BAKEOFF_COMMIT={commit}");
}

/// The commit of the sources, with `-dirty` if tracked sources differ from it. `$BAKEOFF_COMMIT` replaces it, for sources
/// outside a repository.
fn commit() -> Option<String> {
    println!("cargo::rerun-if-env-changed=BAKEOFF_COMMIT");
    if let Ok(commit) = env::var("BAKEOFF_COMMIT") {
        return Some(commit);
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    // The log of HEAD grows with each commit and checkout; a fresh clone by cargo has none.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let sources = ["..", "../../Cargo.toml", "../../Cargo.lock"];
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let changes = git(&[&status[..], &sources[..]].concat())?;
    let dirty = if changes.is_empty() { "" } else { "-dirty" };
    Some(format!("{commit}{dirty}"))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}

/// Adds the sources below a directory. Cargo notices a new source because another one must change to name it.
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
        } else if path.extension().is_some_and(|extension| {
            ["rs", "toml", "c", "h"]
                .iter()
                .any(|source| extension == *source)
        }) {
            files.push(path);
        }
    }
}
