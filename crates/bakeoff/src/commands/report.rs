//! A run that was judged, and the reports of it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use judge::report::MailOptions;
use judge::topics::agreement::find::Judged;
use record::rundir;
use record::rundir::{Run, RunDir};
use record::verdict::Judgement;
use record::verdict::why::Why;

use super::explained;
use crate::out;

const PAGE: &str = "report.html";

/// The verdict, in the run directory.
pub(super) const VERDICT: &str = "verdict.json";

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

    /// Writes `files` to the run directory.
    pub(super) fn write(&self, dir: &RunDir) -> Result<()> {
        for (name, body) in self.files()? {
            dir.write(name, &body)?;
        }
        Ok(())
    }

    /// Names and contents of verdict.json, report.md and report.html, and of why.json for a run with profiles.
    pub(super) fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let mut files = vec![(VERDICT, self.verdict()?)];
        if let Some(why) = explained::file(&self.run, &self.whys)? {
            files.push((rundir::WHY, why));
        }
        files.push(("report.md", self.markdown().into_bytes()));
        let page = judge::report::html(&self.run, &self.judgement, &self.whys);
        files.push((PAGE, page.into_bytes()));
        Ok(files)
    }

    /// The content of verdict.json.
    pub(super) fn verdict(&self) -> Result<Vec<u8>> {
        let verdict = judge::report::json(&self.run, &self.judgement);
        Ok(serde_json::to_vec_pretty(&verdict)?)
    }

    /// For a pull request.
    pub(super) fn markdown(&self) -> String {
        judge::report::markdown(&self.run, &self.judgement, &self.whys)
    }

    /// For a mailing list.
    pub(super) fn mail(&self, options: &MailOptions) -> String {
        judge::report::mail(&self.run, &self.judgement, &self.whys, options)
    }

    /// For comparing it with another run.
    pub(super) fn judged(&self) -> Judged<'_> {
        Judged {
            run: &self.run,
            judgement: &self.judgement,
        }
    }

    /// The path of the page.
    pub(super) fn page(&self) -> PathBuf {
        self.dir.join(PAGE)
    }

    /// Prints the report for a terminal: the headline and the path of the page are last.
    pub(super) fn print(&self) {
        self.print_without_page();
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

    /// Prints the report for a terminal.
    pub(super) fn print_without_page(&self) {
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
    }
}

/// Columns of the terminal, or 100 if there is none.
pub(super) fn width() -> usize {
    let columns = console::Term::stdout()
        .size_checked()
        .map(|(_, columns)| columns as usize);
    columns.unwrap_or(100).clamp(60, 160)
}
