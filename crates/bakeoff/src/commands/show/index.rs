//! Summarises the plans of a night, and how metrics change over nights. It only reads runs.
//!
//! ```text
//! DIR -> nights (directories of runs) -> a summary of each run -> index.json -> index.html, index.md
//! ```
//! Judging a run takes seconds, and there may be many nights with many runs. So the summary of a run is taken from its
//! night's existing index, if the run's journal has not changed since.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use base::input::tree::Tree;
use judge::topics::night::find::{OfNight, Rates};
use record::hash;
use record::journal;
use record::journal::MOST_BYTES;
use record::night;
use record::night::{Index, Night, PlanSummary, RunSummary, State};
use record::rundir;
use record::rundir::ACCEPTED;

use crate::cli::FailOn;
use crate::cli::show::{ERROR_RATE, RateArgs, ShowArgs};
use crate::commands::report::width;
use crate::commands::{End, gate, list, print_json};
use crate::out;

/// Writes the index of some nights.
pub(super) fn index(dirs: &[PathBuf], args: &ShowArgs, json: bool) -> Result<End> {
    check_gate(args.fail_on, "bakeoff show DIR")?;
    let out = match (&args.index, dirs) {
        (Some(out), _) => out.clone(),
        (None, [dir]) if !rundir::is_run(dir) => dir.clone(),
        (None, _) => bail!(
            "nowhere to write the index of {} (name a directory: --index DIR)",
            match dirs.len() {
                1 => "a run".into(),
                count => format!("{count} directories"),
            }
        ),
    };
    let nights = nights(dirs)?;
    let tree = Tree::to_write(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let index = write(&tree, &nights, rates(&args.rates))?;
    if json {
        print_json(&index)?;
    } else {
        print(&out, &index);
    }
    Ok(gate_end(&index, args.fail_on))
}

/// Refuses gates that apply to a single run only.
pub(in crate::commands) fn check_gate(fail_on: Option<FailOn>, command: &str) -> Result<()> {
    match fail_on {
        None | Some(FailOn::Worse) => Ok(()),
        Some(
            other @ (FailOn::Regression
            | FailOn::Unfair
            | FailOn::Defect
            | FailOn::Growth
            | FailOn::Failures),
        ) => bail!(
            "{} is for one run: the gate of several plans holds one error rate for their primary metrics together (take --fail-on worse, and \
             for each run {command} {})",
            other.words(),
            other.words()
        ),
    }
}

/// The error rates of the options, or the defaults.
pub(in crate::commands) fn rates(args: &RateArgs) -> Rates {
    Rates {
        gate: args.error_rate.unwrap_or(ERROR_RATE),
        fdr: args.fdr.unwrap_or(ERROR_RATE),
    }
}

/// Prints the summary of a night, and the path of its page.
pub(in crate::commands) fn print(out: &Path, index: &Index) {
    out::text(&judge::report::night_terminal(index, width()));
    out::line(&format!("index: {}", page_path(out).display()));
}

/// The path of the page.
pub(in crate::commands) fn page_path(out: &Path) -> PathBuf {
    out.join("index.html")
}

/// A night's directory with its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands) struct NightDir {
    pub(in crate::commands) dir: PathBuf,
    /// Names of the selected runs; empty selects all runs of the directory.
    pub(in crate::commands) only: BTreeSet<String>,
}

/// The nights of directories, each of which may be a night, contain nights, or be a run of a night.
fn nights(dirs: &[PathBuf]) -> Result<Vec<NightDir>> {
    let mut nights: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for dir in dirs {
        let dir = dir
            .canonicalize()
            .with_context(|| format!("cannot find {}", dir.display()))?;
        if rundir::is_run(&dir) {
            let night = dir.parent().unwrap_or(&dir).to_path_buf();
            nights.entry(night).or_default().insert(dir_name(&dir));
            continue;
        }
        let mut found = Vec::new();
        if is_night(&dir)? {
            found.push(dir.clone());
        } else {
            for subdirectory in directories(&dir)? {
                if is_night(&subdirectory)? {
                    found.push(subdirectory);
                }
            }
        }
        if found.is_empty() {
            bail!(
                "no runs in {} (name a night's directory, one that holds nights, or run directories)",
                dir.display()
            );
        }
        for night in found {
            nights.entry(night).or_default();
        }
    }
    let nights = nights.into_iter();
    Ok(nights.map(|(dir, only)| NightDir { dir, only }).collect())
}

/// Whether a directory contains runs, or lists plans whose runs it will contain.
fn is_night(dir: &Path) -> Result<bool> {
    let is_listed = Tree::at(dir).has(night::NIGHT);
    Ok(is_listed || directories(dir)?.iter().any(rundir::is_run))
}

/// The subdirectories of a directory, sorted by name. Symbolic links do not count.
fn directories(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = Tree::at(dir).list();
    let entries = entries.with_context(|| format!("cannot list {}", dir.display()))?;
    let dirs = entries.into_iter().filter(|entry| entry.kind.is_dir());
    Ok(dirs.map(|entry| dir.join(entry.name)).collect())
}

/// Makes the index of nights and writes its three files.
pub(in crate::commands) fn write(out: &Tree, nights: &[NightDir], rates: Rates) -> Result<Index> {
    let path = out.path();
    let from = path
        .canonicalize()
        .with_context(|| format!("cannot find {}", path.display()))?;
    let nights = nights.iter().map(|night| read_night(night, &from));
    let nights = nights.collect::<Result<Vec<_>>>()?;
    let index = judge::topics::night::find::index(nights, rates)
        .context("no night to write an index of")?;
    let files = [
        (night::INDEX, serde_json::to_vec_pretty(&index)?),
        (
            "index.md",
            judge::report::night_markdown(&index).into_bytes(),
        ),
        ("index.html", judge::report::night_html(&index).into_bytes()),
    ];
    for (name, body) in files {
        rundir::replace(out, name, &body)?;
    }
    Ok(index)
}

fn read_night(night: &NightDir, from: &Path) -> Result<OfNight> {
    let listed = Night::read(&night.dir)?;
    let noted = match &listed {
        Some(listed) if !listed.begun.is_empty() => listed.begun.clone(),
        // Each index that is written into the directory changes the directory's own time.
        Some(_) => modified_at(&night.dir.join(night::NIGHT))?,
        None => modified_at(&night.dir)?,
    };
    let listed = listed.map_or(Vec::new(), |listed| listed.plans);
    let known = KnownSummaries::read(&night.dir);
    let mut plans = Vec::new();
    for plan in &listed {
        let dir = Tree::at(&night.dir).below(&plan.name);
        let mut summary = plan_summary(&dir, &plan.name, from, &known);
        if let Some(failure) = &plan.failure {
            summary.why = Some(failure.clone());
            summary.state = State::Failed;
        }
        summary.planned = summary.planned.max(plan.planned);
        plans.push(summary);
    }
    for dir in directories(&night.dir)? {
        let name = dir_name(&dir);
        let is_listed = listed.iter().any(|plan| plan.name == name);
        if rundir::is_run(&dir) && !is_listed {
            plans.push(plan_summary(&Tree::at(&dir), &name, from, &known));
        }
    }
    if !night.only.is_empty() {
        plans.retain(|plan| night.only.contains(&plan.name));
    }
    Ok(OfNight {
        name: dir_name(&night.dir),
        noted,
        plans,
    })
}

/// The modification time of a file or directory, in RFC 3339.
fn modified_at(path: &Path) -> Result<String> {
    let at = fs::metadata(path).and_then(|metadata| metadata.modified());
    let at = at.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(humantime::format_rfc3339_seconds(at).to_string())
}

fn dir_name(dir: &Path) -> String {
    dir.file_name()
        .unwrap_or(dir.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// A night's existing index, and when it was written.
struct KnownSummaries {
    index: Option<(Index, std::time::SystemTime)>,
}

impl KnownSummaries {
    fn read(night: &Path) -> Self {
        let written = Tree::at(night).metadata(night::INDEX);
        let written = written.and_then(|metadata| metadata.modified());
        let index = night::read_index(night).zip(written.ok());
        Self { index }
    }

    /// The summary of a run that has not changed since the index was written.
    fn unchanged_summary(&self, name: &str, run: &Tree) -> Option<PlanSummary> {
        let (index, written) = self.index.as_ref()?;
        let plan = index.plans.iter().find(|plan| plan.name == name)?;
        let journal = run.open(journal::JOURNAL).ok()?;
        let is_same =
            hash::sha256_of(journal.take(MOST_BYTES)).ok()? == plan.run.as_ref()?.journal_sha256;
        // Differences that the user accepted later are not in the journal, but change the summary.
        let accepted = run
            .metadata(ACCEPTED)
            .and_then(|metadata| metadata.modified());
        let is_older = accepted.map_or(true, |accepted| accepted < *written);
        let is_over = matches!(plan.state, State::Complete | State::Undecided);
        (is_same && is_older && is_over).then(|| plan.clone())
    }
}

fn plan_summary(dir: &Tree, name: &str, from: &Path, known: &KnownSummaries) -> PlanSummary {
    let path = relative(from, &dir.path());
    if let Some(summary) = known.unchanged_summary(name, dir) {
        return PlanSummary {
            dir: path,
            ..summary
        };
    }
    let without_run = |state: State, why: Option<String>| PlanSummary {
        name: name.into(),
        dir: path.clone(),
        planned: 0,
        state,
        why,
        run: None,
    };
    if !dir.has_dir("") || rundir::is_not_begun(dir) {
        let state = if rundir::is_running(dir) {
            State::Running
        } else {
            State::NotBegun
        };
        return without_run(state, None);
    }
    match rundir::load(dir, &workload::check) {
        Ok(run) => {
            let judgement = judge::summary(&run);
            PlanSummary {
                planned: run.plan.comparisons() as u32,
                run: Some(run_summary(&run, &judgement)),
                ..without_run(list::state(dir, &run, &judgement), None)
            }
        }
        Err(_) if rundir::is_running(dir) => without_run(State::Running, None),
        Err(why) => without_run(State::Damaged, Some(format!("{why:#}"))),
    }
}

fn run_summary(run: &rundir::Run, judgement: &record::verdict::Judgement) -> RunSummary {
    let machine = judge::report::machine(&run.opening.machine);
    RunSummary {
        failures: gate::failures(run, judgement),
        unanswered: gate::unanswered(run, judgement, FailOn::Worse),
        ..judge::topics::night::find::summary(run, judgement, machine)
    }
}

/// The relative path from one directory to another; both are absolute.
fn relative(from: &Path, to: &Path) -> String {
    let parts = |path: &Path| -> Vec<String> {
        let parts = path.components();
        let parts = parts.filter(|part| !matches!(part, Component::RootDir));
        parts
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect()
    };
    let (from, to) = (parts(from), parts(to));
    let common = from
        .iter()
        .zip(&to)
        .take_while(|(from, to)| from == to)
        .count();
    let up = std::iter::repeat_n("..".to_string(), from.len() - common);
    let path: Vec<String> = up.chain(to[common..].iter().cloned()).collect();
    if path.is_empty() {
        ".".into()
    } else {
        path.join("/")
    }
}

/// How a command ends after it has written the index of a night.
pub(in crate::commands) fn gate_end(index: &Index, fail_on: Option<FailOn>) -> End {
    let Some(fail_on) = fail_on else {
        return End::Done;
    };
    let mut failures = Vec::new();
    let mut unanswered = Vec::new();
    for plan in &index.plans {
        let with_name = |text: String| format!("{}: {text}", plan.name);
        failures.extend(plan.failures().into_iter().map(with_name));
        unanswered.extend(plan.unanswered().into_iter().map(with_name));
    }
    gate::answer(fail_on, &failures, || unanswered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_from_an_index_to_its_runs_is_relative() {
        let path = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(path("/n/1", "/n/1/web"), "web");
        assert_eq!(path("/n", "/n/1/web"), "1/web");
        assert_eq!(path("/tmp/index", "/n/1/web"), "../../n/1/web");
        assert_eq!(path("/n", "/n"), ".");
    }
}
