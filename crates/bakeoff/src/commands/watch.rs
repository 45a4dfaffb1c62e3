//! `watch`: shows a run in the terminal while it goes on, or the state of a night's plans. It only reads runs.

mod serve;

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use anyhow::{Result, anyhow};
use base::input::tree::Tree;
use record::live::{Callbacks, NightPlan, Watched};

use super::{End, show, watch_signals};
use crate::cli::WatchArgs;
use crate::out;

/// Watches until the user quits; without a terminal, until the run is over.
pub(super) fn watch(args: &WatchArgs) -> Result<End> {
    if args.web {
        return serve::serve(args);
    }
    let dir = match &args.run {
        Some(dir) => dir.clone(),
        None => show::newest_run(Path::new(show::RUNS))?,
    };
    if let Some(plans) = record::live::night(&dir).map_err(|why| anyhow!(why))? {
        list(&dir, &plans);
        return Ok(End::Done);
    }
    let stop = watch_signals()?;
    crate::watch::terminal::watch(&dir, callbacks(), &stop, &out::line)?;
    Ok(End::Done)
}

/// Prints the current state of each plan of a night.
fn list(night: &Path, plans: &[NightPlan]) {
    for plan in plans {
        let now = Watched::new(Tree::at(night).below(&plan.name), callbacks()).refresh(false);
        out::line(&judge::topics::live::document::night_line(plan, Some(&now)));
    }
}

/// The functions for checking and judging runs, and the clocks.
pub(super) fn callbacks() -> Callbacks {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    Callbacks {
        check: workload::check,
        judge: judge::interim,
        now: SystemTime::now,
        clock: || BEGIN.get_or_init(Instant::now).elapsed(),
    }
}
