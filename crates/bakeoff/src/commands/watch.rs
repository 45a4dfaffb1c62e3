//! `watch`: a run in the terminal while it goes on. Nothing is changed.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow, bail};
use live::{Eyes, Watched};

use super::{End, watch_signals};
use crate::cli::WatchArgs;
use crate::out;

/// Where runs are by default.
const RUNS: &str = "runs";

/// Watches until the user has seen enough; without a terminal until the run is over.
pub(super) fn watch(args: &WatchArgs) -> Result<End> {
    let dir = match &args.run {
        Some(dir) => dir.clone(),
        None => newest(Path::new(RUNS))?,
    };
    let stop = watch_signals()?;
    ::watch::terminal::watch(&dir, eyes(), &stop, &out::line)?;
    Ok(End::Done)
}

/// How runs are checked and judged, and what time it is.
pub(super) fn eyes() -> Eyes {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    Eyes {
        check: workload::check,
        look: verdict::look,
        now: SystemTime::now,
        clock: || BEGIN.get_or_init(Instant::now).elapsed(),
    }
}

/// The run that goes on, else the one that began last.
fn newest(dir: &Path) -> Result<PathBuf> {
    let runs = live::directories(dir).map_err(|why| anyhow!("{why} (name a run directory)"))?;
    let mut known: Vec<(bool, String, PathBuf)> = runs
        .into_values()
        .map(|dir| {
            let now = Watched::new(&dir, eyes()).look(false);
            let begun = now
                .entries
                .first()
                .map_or(String::new(), |entry| entry.at.clone());
            (live::is_running(&dir), begun, dir)
        })
        .collect();
    known.sort();
    let Some((_, _, dir)) = known.pop() else {
        bail!("no runs in {} (name a run directory)", dir.display());
    };
    Ok(dir)
}
