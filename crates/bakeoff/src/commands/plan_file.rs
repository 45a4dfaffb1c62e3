//! Plan files that commands write. They never overwrite another plan.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::new::create_file;

/// The path of the plan file beside a run directory.
pub(super) fn beside(dir: &Path) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(".toml");
    PathBuf::from(name)
}

/// Whether a plan may be written to a path: the path is free, or has the same plan.
pub(super) fn is_free(path: &Path, text: &str) -> Result<bool> {
    match path.try_exists() {
        Ok(false) => Ok(true),
        Ok(true) => {
            let before = plan::read_text(path);
            let before = before.with_context(|| format!("cannot read {}", path.display()))?;
            Ok(before == text)
        }
        Err(why) => Err(why).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// A new seed: the seconds since 1970.
pub(super) fn drawn_seed() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |time| time.as_secs().cast_signed())
}

/// The seed of an existing plan.
pub(super) fn seed(path: &Path) -> Option<i64> {
    plan::seed_of(&plan::read_text(path).ok()?)
}

/// Writes a plan, unless the file exists.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    create_file(path, text)
}
