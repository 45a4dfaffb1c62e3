//! `report`: writes the reports of a run directory.

use std::path::{Path, PathBuf};

use anyhow::Result;
use record::rundir;
use record::rundir::{Run, RunDir};
use record::verdict::Judgement;
use record::verdict::why::Why;
use serde_json::json;

use super::{End, explained, print_json};
use crate::out;

/// Writes verdict.json, report.html and report.md again, and why.json for a run with profiles.
pub(super) fn report(dir: &Path, json: bool) -> Result<End> {
    let run = rundir::load(dir, &workload::check)?;
    let judgement = judge::judge(&run);
    let whys = explained::explained(dir, &run);
    let page = write(&RunDir::open(dir, &run.plan_text)?, &run, &judgement, &whys)?;
    if json {
        print_json(&json!({ "html": page, "markdown": page.with_extension("md") }))?;
    } else {
        out::line(&page.display().to_string());
    }
    Ok(End::Done)
}

/// Writes the verdict, explanations and reports, and returns the page's path.
pub(super) fn write(
    dir: &RunDir,
    run: &Run,
    judgement: &Judgement,
    whys: &[Why],
) -> Result<PathBuf> {
    dir.write(
        "verdict.json",
        &serde_json::to_vec_pretty(&judge::report::json(run, judgement))?,
    )?;
    explained::write(dir, run, whys)?;
    dir.write(
        "report.md",
        judge::report::markdown(run, judgement, whys).as_bytes(),
    )?;
    dir.write(
        "report.html",
        judge::report::html(run, judgement, whys).as_bytes(),
    )?;
    Ok(dir.path().join("report.html"))
}

/// Columns of the terminal, or 100 if there is none.
pub(super) fn width() -> usize {
    let columns = console::Term::stdout()
        .size_checked()
        .map(|(_, columns)| columns as usize);
    columns.unwrap_or(100).clamp(60, 160)
}
