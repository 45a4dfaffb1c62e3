//! All runs below a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use record::rundir;

use crate::Problem;
use crate::watched::listed;

/// Run directories by name: those below `dir` that hold a plan or a journal; or itself, where it is one.
pub fn directories(dir: &Path) -> Result<BTreeMap<String, PathBuf>, Problem> {
    let entries = listed(dir)?;
    let name = |path: &Path| path.file_name()?.to_str().map(String::from);
    if rundir::is_run(dir) {
        let own = name(dir).or_else(|| name(&dir.canonicalize().ok()?));
        return Ok([(own.unwrap_or_else(|| "run".into()), dir.into())].into());
    }
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let runs = paths.filter(|path| rundir::is_run(path));
    Ok(runs.filter_map(|path| Some((name(&path)?, path))).collect())
}
