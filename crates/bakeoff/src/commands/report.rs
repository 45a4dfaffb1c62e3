//! `report`: a run directory as a page, as Markdown, as a table on the terminal.

use std::path::{Path, PathBuf};

use anyhow::Result;
use record::rundir::{self, Run, RunDir};
use record::verdict::Judgement;
use serde_json::json;

use super::{End, print_json};
use crate::out;

/// Writes verdict.json, report.html and report.md again.
pub(super) fn report(dir: &Path, json: bool) -> Result<End> {
    let run = rundir::load(dir, &workload::check)?;
    let judgement = verdict::judge(&run);
    let page = write(&RunDir::open(dir, &run.plan_text)?, &run, &judgement)?;
    if json {
        print_json(&json!({ "html": page, "markdown": page.with_extension("md") }))?;
    } else {
        out::line(&page.display().to_string());
    }
    Ok(End::Done)
}

/// Writes the verdict and its reports, and returns the page's path.
pub(super) fn write(dir: &RunDir, run: &Run, judgement: &Judgement) -> Result<PathBuf> {
    dir.write(
        "verdict.json",
        &serde_json::to_vec_pretty(&::report::json(judgement))?,
    )?;
    dir.write("report.md", ::report::markdown(run, judgement).as_bytes())?;
    dir.write("report.html", ::report::html(run, judgement).as_bytes())?;
    Ok(dir.path().join("report.html"))
}

/// Columns of the terminal, or 100 where there is none.
pub(super) fn width() -> usize {
    let columns = console::Term::stdout()
        .size_checked()
        .map(|(_, columns)| columns as usize);
    columns.unwrap_or(100).clamp(60, 160)
}
