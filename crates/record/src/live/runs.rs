//! All runs below a directory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use crate::rundir;
use base::input::tree::Tree;

use crate::live::Problem;

/// Run directories by name: subdirectories of `dir` with a plan or a journal, or `dir` itself if it is a run. Symbolic links are ignored.
pub fn directories(dir: impl Into<Tree>) -> Result<BTreeMap<String, Tree>, Problem> {
    let dir = dir.into();
    let path = dir.path();
    let entries = dir.list().map_err(|why| match why.kind() {
        ErrorKind::NotFound => format!("no such directory: {}", path.display()),
        _ => format!("cannot list runs: {}: {why}", path.display()),
    })?;
    if rundir::is_run(&dir) {
        let name = |path: &Path| path.file_name()?.to_str().map(String::from);
        let name = name(&path).or_else(|| name(&path.canonicalize().ok()?));
        return Ok([(name.unwrap_or_else(|| "run".into()), dir)].into());
    }
    let dirs = entries.into_iter().filter(|entry| entry.kind.is_dir());
    let named = dirs.filter_map(|entry| {
        let name = entry.name.into_string().ok()?;
        let run = dir.below(&name);
        Some((name, run))
    });
    Ok(named.filter(|(_, run)| rundir::is_run(run)).collect())
}
