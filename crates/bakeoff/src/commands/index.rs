//! `index`: what the plans of a night come to together, and how metrics change over nights. Runs are read, and nothing of them changed.
//!
//! ```text
//! DIR -> nights (directories of runs) -> a summary of each run -> index.json -> index.html, index.md
//! ```
//! A run takes seconds to judge, and many nights have many. So a summary is taken from the index that its night has already, where the
//! run's journal is the one that this index was made of.

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

use super::report::width;
use super::{End, gate, list, print_json};
use crate::cli::FailOn;
use crate::cli::night::{ERROR_RATE, IndexArgs, RateArgs};
use crate::out;

/// Writes the index of some nights.
pub(super) fn index(args: &IndexArgs, json: bool) -> Result<End> {
    refuse_gate(args.fail_on, "bakeoff judge DIR")?;
    let out = match (&args.out, args.dirs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [dir]) if !rundir::is_run(dir) => dir.clone(),
        (None, _) => bail!(
            "nowhere to write the index of {} (name a directory: --out DIR)",
            match args.dirs.len() {
                1 => "a run".into(),
                count => format!("{count} directories"),
            }
        ),
    };
    let nights = nights(&args.dirs)?;
    let tree = Tree::to_write(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let index = write(&tree, &nights, rates(&args.rates))?;
    if json {
        print_json(&index)?;
    } else {
        tell(&out, &index);
    }
    end(&index, args.fail_on)
}

/// Refuses gates that only a run by itself has.
pub(super) fn refuse_gate(fail_on: Option<FailOn>, command: &str) -> Result<()> {
    match fail_on {
        None | Some(FailOn::Worse) => Ok(()),
        Some(
            other @ (FailOn::AnyWorse
            | FailOn::Undecided
            | FailOn::Violation
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

/// The rates that were typed, or those that stand for them.
pub(super) fn rates(args: &RateArgs) -> Rates {
    Rates {
        gate: args.error_rate.unwrap_or(ERROR_RATE),
        fdr: args.fdr.unwrap_or(ERROR_RATE),
    }
}

/// Prints what a night comes to, and where its page is.
pub(super) fn tell(out: &Path, index: &Index) {
    out::text(&judge::report::night_terminal(index, width()));
    out::line(&format!("index: {}", page(out).display()));
}

/// Where the page is.
pub(super) fn page(out: &Path) -> PathBuf {
    out.join("index.html")
}

/// A night's directory with its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NightDir {
    pub(super) dir: PathBuf,
    /// Names of the runs that were asked for one by one; all of the directory's where none were.
    pub(super) only: BTreeSet<String>,
}

/// The nights that some directories are, hold, or belong to.
fn nights(dirs: &[PathBuf]) -> Result<Vec<NightDir>> {
    let mut nights: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for dir in dirs {
        let dir = dir
            .canonicalize()
            .with_context(|| format!("cannot find {}", dir.display()))?;
        if rundir::is_run(&dir) {
            let night = dir.parent().unwrap_or(&dir).to_path_buf();
            nights.entry(night).or_default().insert(name(&dir));
            continue;
        }
        let found = if is_night(&dir)? {
            vec![dir.clone()]
        } else {
            let mut found = Vec::new();
            for below in directories(&dir)? {
                if is_night(&below)? {
                    found.push(below);
                }
            }
            found
        };
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

/// Whether a directory holds runs, or is to hold some.
fn is_night(dir: &Path) -> Result<bool> {
    let is_listed = Tree::at(dir).has(night::NIGHT);
    Ok(is_listed || directories(dir)?.iter().any(rundir::is_run))
}

/// The directories in a directory, by name. A link to one is none.
fn directories(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = Tree::at(dir).list();
    let entries = entries.with_context(|| format!("cannot list {}", dir.display()))?;
    let dirs = entries.into_iter().filter(|entry| entry.kind.is_dir());
    Ok(dirs.map(|entry| dir.join(entry.name)).collect())
}

/// Makes the index of some nights and writes its three files.
pub(super) fn write(out: &Tree, nights: &[NightDir], rates: Rates) -> Result<Index> {
    let path = out.path();
    let from = path
        .canonicalize()
        .with_context(|| format!("cannot find {}", path.display()))?;
    let of_nights = nights.iter().map(|night| of_night(night, &from));
    let of_nights = of_nights.collect::<Result<Vec<_>>>()?;
    let index = judge::topics::night::find::index(of_nights, rates)
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

fn of_night(night: &NightDir, from: &Path) -> Result<OfNight> {
    let listed = Night::read(&night.dir)?;
    let noted = match &listed {
        Some(listed) if !listed.begun.is_empty() => listed.begun.clone(),
        // The directory itself changes with each index that is written into it.
        Some(_) => modified(&night.dir.join(night::NIGHT))?,
        None => modified(&night.dir)?,
    };
    let listed = listed.map_or(Vec::new(), |listed| listed.plans);
    let known = Known::of(&night.dir);
    let mut plans = Vec::new();
    for plan in &listed {
        let dir = Tree::at(&night.dir).below(&plan.name);
        let mut summary = of_plan(&dir, &plan.name, from, &known);
        if let Some(failure) = &plan.failure {
            summary.why = Some(failure.clone());
            summary.state = State::Failed;
        }
        summary.planned = summary.planned.max(plan.planned);
        plans.push(summary);
    }
    for dir in directories(&night.dir)? {
        let name = name(&dir);
        let is_listed = listed.iter().any(|plan| plan.name == name);
        if rundir::is_run(&dir) && !is_listed {
            plans.push(of_plan(&Tree::at(&dir), &name, from, &known));
        }
    }
    if !night.only.is_empty() {
        plans.retain(|plan| night.only.contains(&plan.name));
    }
    Ok(OfNight {
        name: name(&night.dir),
        noted,
        plans,
    })
}

/// When a file was last written, or something was last put into a directory; RFC 3339.
fn modified(path: &Path) -> Result<String> {
    let at = fs::metadata(path).and_then(|about| about.modified());
    let at = at.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(humantime::format_rfc3339_seconds(at).to_string())
}

fn name(dir: &Path) -> String {
    dir.file_name()
        .unwrap_or(dir.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// What a night's own index says of its runs, and when it was written.
struct Known {
    index: Option<(Index, std::time::SystemTime)>,
}

impl Known {
    fn of(night: &Path) -> Self {
        let written = Tree::at(night).metadata(night::INDEX);
        let written = written.and_then(|about| about.modified());
        let index = night::read_index(night).zip(written.ok());
        Self { index }
    }

    /// The summary of a run that has not changed since.
    fn summary(&self, name: &str, run: &Tree) -> Option<PlanSummary> {
        let (index, written) = self.index.as_ref()?;
        let plan = index.plans.iter().find(|plan| plan.name == name)?;
        let journal = run.open(journal::JOURNAL).ok()?;
        let is_same =
            hash::sha256_of(journal.take(MOST_BYTES)).ok()? == plan.run.as_ref()?.journal_sha256;
        // Reasons that were accepted later change what is said, and no journal has them.
        let accepted = run.metadata(ACCEPTED).and_then(|about| about.modified());
        let is_older = accepted.map_or(true, |accepted| accepted < *written);
        let is_over = matches!(plan.state, State::Complete | State::Undecided);
        (is_same && is_older && is_over).then(|| plan.clone())
    }
}

fn of_plan(dir: &Tree, name: &str, from: &Path, known: &Known) -> PlanSummary {
    let place = relative(from, &dir.path());
    if let Some(summary) = known.summary(name, dir) {
        return PlanSummary {
            dir: place,
            ..summary
        };
    }
    let without = |state: State, why: Option<String>| PlanSummary {
        name: name.into(),
        dir: place.clone(),
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
        return without(state, None);
    }
    match rundir::load(dir, &workload::check) {
        Ok(run) => {
            let judgement = judge::quick_look(&run);
            PlanSummary {
                planned: run.plan.comparisons() as u32,
                run: Some(summary(&run, &judgement)),
                ..without(list::state(dir, &run, &judgement), None)
            }
        }
        Err(_) if rundir::is_running(dir) => without(State::Running, None),
        Err(why) => without(State::Damaged, Some(format!("{why:#}"))),
    }
}

fn summary(run: &rundir::Run, judgement: &record::verdict::Judgement) -> RunSummary {
    let machine = judge::report::machine(&run.opening.machine);
    RunSummary {
        failures: gate::failures(run, judgement),
        unanswered: gate::unanswered(run, judgement, FailOn::Worse),
        ..judge::topics::night::find::summary(run, judgement, machine)
    }
}

/// The way from one directory to another, both whole paths.
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
        .take_while(|(one, other)| one == other)
        .count();
    let up = std::iter::repeat_n("..".to_string(), from.len() - common);
    let way: Vec<String> = up.chain(to[common..].iter().cloned()).collect();
    if way.is_empty() {
        ".".into()
    } else {
        way.join("/")
    }
}

/// How a command ends that has written the index of a night.
pub(super) fn end(index: &Index, fail_on: Option<FailOn>) -> Result<End> {
    let Some(fail_on) = fail_on else {
        return Ok(End::Done);
    };
    let mut found = Vec::new();
    let mut unanswered = Vec::new();
    for plan in &index.plans {
        let about = |what: String| format!("{}: {what}", plan.name);
        found.extend(plan.failures().into_iter().map(about));
        unanswered.extend(plan.unanswered().into_iter().map(about));
    }
    gate::answer(fail_on, &found, || unanswered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_from_an_index_to_its_runs_is_relative() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(way("/n/1", "/n/1/web"), "web");
        assert_eq!(way("/n", "/n/1/web"), "1/web");
        assert_eq!(way("/tmp/index", "/n/1/web"), "../../n/1/web");
        assert_eq!(way("/n", "/n"), ".");
    }
}
