//! `watch`: shows a run in the terminal while it goes on, or the state of a night's plans. It only reads runs.

mod serve;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow, bail};
use base::input::tree::Tree;
use record::live::{Eyes, NightPlan, Watched};
use record::rundir;

use super::{End, watch_signals};
use crate::cli::WatchArgs;
use crate::out;

/// The default directory of runs.
const RUNS: &str = "runs";

/// Watches until the user quits; without a terminal, until the run is over.
pub(super) fn watch(args: &WatchArgs) -> Result<End> {
    if args.web {
        return serve::serve(args);
    }
    let dir = match &args.run {
        Some(dir) => dir.clone(),
        None => newest_run(Path::new(RUNS))?,
    };
    if let Some(plans) = record::live::night(&dir).map_err(|why| anyhow!(why))? {
        list(&dir, &plans);
        return Ok(End::Done);
    }
    let stop = watch_signals()?;
    crate::watch::terminal::watch(&dir, eyes(), &stop, &out::line)?;
    Ok(End::Done)
}

/// Prints the current state of each plan of a night.
fn list(night: &Path, plans: &[NightPlan]) {
    for plan in plans {
        let now = Watched::new(Tree::at(night).below(&plan.name), eyes()).look(false);
        out::line(&judge::topics::live::document::night_line(plan, Some(&now)));
    }
}

/// The functions for checking and judging runs, and the clocks.
pub(super) fn eyes() -> Eyes {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    Eyes {
        check: workload::check,
        look: judge::look,
        now: SystemTime::now,
        clock: || BEGIN.get_or_init(Instant::now).elapsed(),
    }
}

/// The newest running run, else the newest run.
fn newest_run(dir: &Path) -> Result<PathBuf> {
    let runs =
        record::live::directories(dir).map_err(|why| anyhow!("{why} (name a run directory)"))?;
    let mut known: Vec<(bool, String, PathBuf)> = runs
        .into_values()
        .map(|dir| {
            let now = Watched::new(&dir, eyes()).look(false);
            let begun = now
                .entries
                .first()
                .map_or(String::new(), |entry| entry.at.clone());
            (rundir::is_running(&dir), begun, dir.path())
        })
        .collect();
    known.sort();
    let Some((_, _, dir)) = known.pop() else {
        bail!("no runs in {} (name a run directory)", dir.display());
    };
    Ok(dir)
}
