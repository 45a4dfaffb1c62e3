//! A run that was judged, and the reports of it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use record::rundir;
use record::rundir::{Run, RunDir};
use record::verdict::Judgement;
use record::verdict::why::Why;

use super::explained;
use crate::out;

const PAGE: &str = "report.html";

/// A judged run.
pub(super) struct Report {
    dir: PathBuf,
    pub(super) run: Run,
    pub(super) judgement: Judgement,
    whys: Vec<Why>,
}

impl Report {
    /// Reads a run directory and judges the run.
    pub(super) fn read(dir: &Path) -> Result<Self> {
        let run = rundir::load(dir, &workload::check)?;
        let judgement = judge::judge(&run);
        let whys = explained::explained(dir, &run);
        Ok(Self {
            dir: dir.into(),
            run,
            judgement,
            whys,
        })
    }

    /// Writes verdict.json, report.html and report.md, and why.json for a run with profiles.
    pub(super) fn write(&self, dir: &RunDir) -> Result<()> {
        let verdict = judge::report::json(&self.run, &self.judgement);
        dir.write("verdict.json", &serde_json::to_vec_pretty(&verdict)?)?;
        explained::write(dir, &self.run, &self.whys)?;
        dir.write("report.md", self.markdown().as_bytes())?;
        let page = judge::report::html(&self.run, &self.judgement, &self.whys);
        dir.write(PAGE, page.as_bytes())
    }

    /// For a pull request.
    pub(super) fn markdown(&self) -> String {
        judge::report::markdown(&self.run, &self.judgement, &self.whys)
    }

    /// The path of the page.
    pub(super) fn page(&self) -> PathBuf {
        self.dir.join(PAGE)
    }

    /// Prints the report for a terminal: the headline and the path of the page are last.
    pub(super) fn print(&self) {
        let Self {
            run,
            judgement,
            whys,
            ..
        } = self;
        let form = doc::terminal::Form {
            width: width(),
            has_colour: out::has_colour(),
        };
        out::coloured(&judge::report::terminal(run, judgement, whys, form));
        let page = self.page();
        if page.exists() {
            out::line(&format!("report: {}", page.display()));
        } else {
            out::line(&format!(
                "report: none yet (bakeoff show {} --report writes it)",
                self.dir.display()
            ));
        }
    }
}

/// Columns of the terminal, or 100 if there is none.
pub(super) fn width() -> usize {
    let columns = console::Term::stdout()
        .size_checked()
        .map(|(_, columns)| columns as usize);
    columns.unwrap_or(100).clamp(60, 160)
}
