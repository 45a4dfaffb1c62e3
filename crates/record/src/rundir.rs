//! The run directory: plan, journal, trials, verdict and report of one experiment.
//!
//! ```text
//! plan.toml            the plan as it was when the run began
//! journal.jsonl        what happened (`journal`)
//! trials/007/          one attempt at a trial; a second attempt is trials/007.2
//!   trial.json         the trial's record: which, how it ended, its figures
//!   samples.jsonl      the system, second by second (`evidence::Sample`), as it comes; thinned where it is long
//!   seconds.jsonl      likewise what the clients saw (`load::Second`), until the record has it: void trials keep it
//!   defects.jsonl      defects of kernel and services (`defect::FoundDefect`), as they come: of two lines of one defect the later counts
//!   disturbances.jsonl what is done to it on purpose (`disturbances::BegunDisturbance`), likewise until the record has it
//!   facts.json         what fairness checks compare (`evidence::Facts`)
//!   console.log        the guest's console
//!   profile.zst        what it executed (`profiler::format`), of runs that ask why
//! trials/007.interrupted-1/    what there was of an attempt that was interrupted, and was begun anew
//! profiled/003/        likewise a trial that was run for its profile alone: no verdict counts it
//! verdict.json         `judge::Judgement`
//! accepted.json        violations of fairness that the user has named, with his reasons
//! a-a.json             A/A runs of the machine when the run began (`a_a::History`)
//! fleet.json, blocks/   blocks that nodes of a cluster have run (`fleet`)
//! models.json          what other emulated CPUs say (`models::Models`), their runs in models/NAME/
//! report.html, report.md
//! ```
//! It names no absolute path and no host, so it can be moved and judged again elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

use crate::a_a;
use crate::a_a::History;
use crate::check;
use crate::counters::Counters;
use crate::defect::DefectLog;
use crate::disturbances::{BegunDisturbance, read_begun};
use crate::evidence::{Damage, EvidenceFile, Facts, Sample};
use crate::hash::sha256;
use crate::journal;
use crate::journal::CloseReason;
use crate::journal::{Entry, Event, JOURNAL, Opening};
use crate::json;
use crate::load::Second;
use crate::models;
use crate::models::Models;
use crate::node::Node;
use crate::streamed;
use crate::trial::{Measurement, Outcome, PhaseTime, Trial};
use crate::validate;
use base::input::tree::Tree;
use plan::{self, CheckWorkload, Checks, Plan};

/// Longest `trial.json`, in bytes. An hour of load has 5 MiB, the longest timeline 20.
const RECORD_BYTES: u64 = 64 << 20;

/// Longest `facts.json`, in bytes. Facts of a guest are bounded as it tells them; they have some hundred KiB.
const FACTS_BYTES: u64 = 4 << 20;

/// Longest of the other files that are JSON, in bytes.
const FILE_BYTES: u64 = 64 << 20;

/// Most values in `trial.json` and in the other files.
const FILE_VALUES: usize = 1 << 20;

/// Most values in `facts.json`.
const FACTS_VALUES: usize = 1 << 15;

/// Longest journal that is looked through for something that is not blank, in bytes. Who reads a longer one says what is wrong with it.
const BLANK_BYTES: u64 = 1 << 20;

/// Version of `trial.json`.
pub const TRIAL_VERSION: u32 = 1;

/// The content of `trial.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Version of this format.
    pub version: u32,
    /// Which trial.
    pub trial: Trial,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Host time by phase, in the order in which they passed; none where nothing was booted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_time: Vec<PhaseTime>,
    /// What became of its profile; none where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileNote>,
    /// Defects that its kernel and services told of; none where nothing was booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defects: Option<DefectLog>,
}

/// What of an attempt's record the rest of the program relies on, whoever wrote it.
pub fn check_record(record: &mut TrialRecord) -> Result<(), String> {
    // Which trial it is of, the journal says.
    let TrialRecord {
        version: _,
        trial: _,
        attempt: _,
        outcome,
        host_time,
        profile: _,
        defects,
    } = record;
    validate::outcome(outcome)?;
    for time in host_time {
        check::count("host_ms", time.host_ms)?;
    }
    let mut found = defects.iter_mut().flat_map(|log| &mut log.found);
    found.try_for_each(validate::defect)
}

impl TrialRecord {
    /// The name of its attempt's directory: `007`, or `007.2`.
    pub fn attempt_name(&self) -> String {
        attempt_name(&self.trial, self.attempt)
    }
}

/// Name of the file with what is done to an attempt on purpose, while it lasts (`disturbances::BegunDisturbance`).
pub const DISTURBANCES: &str = "disturbances.jsonl";

/// The name of what the clients saw, in the directory of an attempt that did not come to its end.
pub const SECONDS: &str = "seconds.jsonl";

/// The name of the defects that an attempt told of, as they came.
pub const DEFECTS: &str = "defects.jsonl";

/// A profile's name in the directory of an attempt.
pub const PROFILE: &str = "profile.zst";

/// Name of the file with explanations, in the directory of a run that was profiled.
pub const WHY: &str = "why.json";

/// What became of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileNote {
    /// It lies in `PROFILE`.
    Kept {
        /// SHA-256 of the file.
        sha256: String,
        /// Its instructions, without those of the idle task.
        busy_instructions: u64,
    },
    /// It lies in `PROFILE`, and is made of samples.
    Sampled {
        /// SHA-256 of the file.
        sha256: String,
        /// How many samples.
        samples: u64,
        /// Samples that were lost.
        lost: u64,
    },
    /// There is none, and why.
    Missing(String),
}

/// What attempts at trials are run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    /// For the verdict.
    Judged,
    /// For a profile that is sampled, which costs time of its own. They are numbered by themselves, and no verdict counts them.
    Profiled,
}

impl Series {
    /// The directory that holds the directories of its attempts.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Judged => "trials",
            Self::Profiled => "profiled",
        }
    }
}

/// A run as it lies on disk, for `verdict` and `report`.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The plan.
    pub plan: Plan,
    /// The plan as text.
    pub plan_text: String,
    /// What the run was opened with.
    pub opening: Opening,
    /// The journal.
    pub entries: Vec<Entry>,
    /// SHA-256 of the journal so far, which names each record by its own; `None` where the run was not read from a directory.
    pub journal_sha256: Option<String>,
    /// All ended attempts in the order of their ends, retried ones among them; without those of `struck`.
    pub attempts: Vec<TrialRecord>,
    /// Measured trials of blocks that were invalidated: they say what is usual on the machine, and nothing of the arms.
    pub struck: Vec<TrialRecord>,
    /// All ended attempts at trials that were run for their profile alone, in the order of their ends.
    pub profiled: Vec<TrialRecord>,
    /// Facts of measured attempts, by the same index as `attempts`; `None` where there are none.
    pub facts: Vec<Option<Facts>>,
    /// What else is known of attempts that were under load for long.
    pub long: Vec<LongEvidence>,
    /// Evidence of measured attempts that is lost or damaged, in the order of `attempts`.
    pub missing: Vec<MissingEvidence>,
    /// What other emulated CPUs say, where that was asked.
    pub models: Option<Models>,
    /// Violations of fairness that the user has named, with his reasons.
    pub accepted: BTreeMap<String, String>,
    /// A/A runs of the machine when the run began; `None` where their file is gone.
    pub history: Option<History>,
}

impl Run {
    /// A run that goes on, as far as decisions need it: without evidence beside the records, and without trials whose turn has not come.
    pub fn in_progress(
        plan: &Plan,
        opening: &Opening,
        entries: &[Entry],
        records: &[TrialRecord],
    ) -> Self {
        let mut plan = plan.clone();
        plan.design.more_blocks = more_blocks(entries, plan.design.max_blocks);
        let invalid = invalidated(entries);
        let records = records.iter().cloned();
        let (struck, attempts): (Vec<_>, Vec<_>) =
            records.partition(|record| is_struck(record, &invalid));
        let turn = Turn::of(entries, &plan);
        let mut run = Self {
            plan,
            plan_text: String::new(),
            opening: opening.clone(),
            entries: entries.to_vec(),
            journal_sha256: None,
            facts: vec![None; attempts.len()],
            attempts,
            struck,
            profiled: Vec::new(),
            long: Vec::new(),
            missing: Vec::new(),
            models: None,
            accepted: BTreeMap::new(),
            history: None,
        };
        run.keep(|trial| turn.has_come(trial));
        run
    }

    /// Who ran each block, where nodes of a fleet did.
    pub fn nodes(&self) -> BTreeMap<u32, &Node> {
        let merged = self.entries.iter().filter_map(|entry| {
            let Event::Merged { block, node, .. } = &entry.event else {
                return None;
            };
            Some((*block, node))
        });
        merged.collect()
    }

    /// Why the run is over; `None` while it is not.
    pub fn closed(&self) -> Option<&CloseReason> {
        let mut last = None;
        for entry in &self.entries {
            match &entry.event {
                Event::Closed { reason } => last = Some(reason),
                Event::Extended { .. } => last = None,
                Event::Opened(_)
                | Event::Resumed { .. }
                | Event::Ceiling { .. }
                | Event::OneFewer { .. }
                | Event::Merged { .. }
                | Event::Started { .. }
                | Event::Ended { .. }
                | Event::Invalidated { .. }
                | Event::Looked { .. }
                | Event::Profiling { .. }
                | Event::Profiled { .. } => {}
            }
        }
        last
    }

    /// The chance of a wrong verdict that the run accepts: its plan's, or what it came to when it was given more blocks.
    pub fn error_rate(&self) -> f64 {
        let extension = last_extension(&self.entries);
        extension.map_or(self.plan.design.error_rate, |(_, error_rate)| error_rate)
    }

    /// The run as it was when its first `blocks` blocks had ended.
    #[must_use]
    pub fn within(mut self, blocks: u32) -> Self {
        self.keep(|trial| trial.block <= blocks);
        self
    }

    fn keep(&mut self, wanted: impl Fn(&Trial) -> bool) {
        let keep: Vec<bool> = self.attempts.iter().map(|one| wanted(&one.trial)).collect();
        let mut kept = keep.iter().copied();
        self.attempts.retain(|_| kept.next() == Some(true));
        let mut kept = keep.iter().copied();
        self.facts.retain(|_| kept.next() == Some(true));
        self.struck.retain(|one| wanted(&one.trial));
        self.missing.retain(|one| wanted(&one.trial));
        self.long.retain(|one| wanted(&one.trial));
    }
}

/// What an attempt that was under load for long has beside its record.
#[derive(Debug, Clone, PartialEq)]
pub struct LongEvidence {
    /// Which trial.
    pub trial: Trial,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// What may grow, as it was read.
    pub counters: Vec<Counters>,
    /// What the clients saw, of an attempt that did not come to its end.
    pub seconds: Vec<Second>,
    /// What had been done to it on purpose, of an attempt that did not come to its end; the record of others has it.
    pub disturbances: Vec<BegunDisturbance>,
}

/// A file that a measured attempt must have beside its record, and that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingEvidence {
    /// Which trial.
    pub trial: Trial,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// Its file.
    pub file: EvidenceFile,
    /// What became of it.
    pub damage: Damage,
}

impl MissingEvidence {
    /// The name of its attempt's directory: `007`, or `007.2`.
    pub fn attempt_name(&self) -> String {
        attempt_name(&self.trial, self.attempt)
    }
}

/// Where a run keeps what other emulated CPUs say.
pub const MODELS: &str = "models.json";

/// Name of the file with violations of fairness that the user has named: ids and reasons.
pub const ACCEPTED: &str = "accepted.json";

/// Where a run keeps the A/A runs that its machine had when it began.
pub const A_A: &str = "a-a.json";

/// How long to wait for another process to let go of a run.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// A run directory under its lock: one process at a time.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    tree: Tree,
    // Held for its lock, which the kernel drops with the process, however it ends.
    _lock: File,
}

impl RunDir {
    /// Opens `path` for running, and creates it with `plan_text` if it is not there. A run that was refused before it began takes
    /// the plan as it is now.
    pub fn open(path: &Path, plan_text: &str) -> Result<Self> {
        let found = Tree::at(path);
        let fresh = !found.has("plan.toml");
        refuse_lost_journal(&found)?;
        let stray = fresh && found.list().is_ok_and(|entries| !entries.is_empty());
        if stray && !found.has("lock") {
            bail!(
                "directory holds something other than a run: {} (name another with --out)",
                path.display()
            );
        }
        let cannot_create = || format!("cannot create run directory: {}", path.display());
        let tree = Tree::to_write(path).with_context(cannot_create)?;
        tree.make_dir("trials").with_context(cannot_create)?;
        // Before anything is fetched for the run.
        match tree.open(JOURNAL) {
            Err(why) if why.kind() != ErrorKind::NotFound => {
                let journal = path.join(JOURNAL);
                return Err(why)
                    .with_context(|| format!("cannot open journal: {}", journal.display()));
            }
            Ok(_) | Err(_) => {}
        }
        let lock = tree
            .lock_file("lock")
            .with_context(|| format!("cannot write to run directory: {}", path.display()))?;
        take(&lock, path)?;
        tree.clear_drafts();
        let dir = Self {
            path: path.into(),
            tree,
            _lock: lock,
        };
        if fresh || has_no_journal(&dir.tree) {
            dir.write("plan.toml", plan_text.as_bytes())?;
        }
        Ok(dir)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its files.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Makes the directory of one attempt. One that was interrupted under load is kept beside it, under a name of its own; what else
    /// an interrupted one left is cleared away.
    pub fn trial_dir(&self, series: Series, trial: &Trial, attempt: u32) -> Result<PathBuf> {
        let name = attempt_name(trial, attempt);
        let series = self.tree.below(series.folder());
        if has_seen(&series.below(&name)) {
            let names = (1_u32..).map(|number| format!("{name}.interrupted-{number}"));
            let free = names.into_iter().find(|place| !series.has(place));
            let free = free.expect("there are more numbers than directories");
            series
                .rename(&name, free)
                .context("cannot keep an interrupted trial")?;
        } else {
            series
                .remove_all(&name)
                .context("cannot clear an interrupted trial")?;
        }
        let dir = series
            .make_dir(&name)
            .with_context(|| format!("cannot create {}", series.path().join(&name).display()))?;
        Ok(dir.path())
    }

    /// Writes the record of an attempt and returns what the journal says of its files.
    pub fn write_trial(
        &self,
        series: Series,
        record: &TrialRecord,
        evidence: &Evidence,
    ) -> Result<Written> {
        let name = format!("{}/{}", series.folder(), record.attempt_name());
        if !evidence.samples.is_empty() {
            let lines = streamed::lines(&evidence.samples)?;
            self.write(&format!("{name}/samples.jsonl"), &lines)?;
        }
        let mut of_facts = None;
        let has_timeline = matches!(record.outcome, Outcome::Measured(_));
        if !has_timeline && !evidence.seconds.is_empty() {
            let lines = streamed::lines(&evidence.seconds)?;
            self.write(&format!("{name}/{SECONDS}"), &lines)?;
        }
        if let Some(facts) = &evidence.facts {
            let body = serde_json::to_vec_pretty(facts)?;
            self.write(&format!("{name}/facts.json"), &body)?;
            of_facts = Some(sha256(&body));
        }
        if !evidence.counters.is_empty() {
            let lines = streamed::lines(&evidence.counters)?;
            let file = EvidenceFile::Counters.name();
            self.write(&format!("{name}/{file}"), &lines)?;
        }
        if let Some(profile) = &evidence.profile {
            self.write(&format!("{name}/{PROFILE}"), profile)?;
        }
        let body = serde_json::to_vec_pretty(record)?;
        self.write(&format!("{name}/trial.json"), &body)?;
        if has_timeline {
            for file in [SECONDS, DISTURBANCES] {
                let path = format!("{name}/{file}");
                let removed = self.tree.remove_file(&path);
                removed.with_context(|| {
                    format!("cannot remove {}", self.path.join(&path).display())
                })?;
            }
        }
        Ok(Written {
            record: sha256(&body),
            facts: of_facts,
        })
    }

    /// Takes over an attempt that another run directory holds as the trial `was`; here it is `trial`. Its files are linked where they
    /// can be, so that nothing is kept twice. Returns its record, and the hash that the journal names it by.
    pub fn take_over(
        &self,
        from: &Path,
        (was, trial): (&Trial, &Trial),
        attempt: u32,
        sha: &str,
    ) -> Result<(TrialRecord, String)> {
        let folder = Series::Judged.folder();
        let from = Tree::at(from);
        let source = from.below(folder).below(attempt_name(was, attempt));
        let name = format!("{folder}/{}", attempt_name(trial, attempt));
        let mut record = load_attempt(&from, was, attempt, sha)?;
        let place = self.tree.below(&name);
        self.tree
            .remove_all(&name)
            .with_context(|| format!("cannot clear {}", place.path().display()))?;
        self.tree
            .make_dir(&name)
            .with_context(|| format!("cannot create {}", place.path().display()))?;
        for entry in source.list().context("cannot read a block's trial")? {
            let file = entry.name;
            if file == "trial.json" || !entry.kind.is_file() {
                continue;
            }
            if place.link_from(&source, &file, &file).is_err() {
                let copy = || io::copy(&mut source.open(&file)?, &mut place.create(&file)?);
                copy().with_context(|| {
                    format!("cannot write {}", place.path().join(&file).display())
                })?;
            }
        }
        record.trial = trial.clone();
        let body = serde_json::to_vec_pretty(&record)?;
        self.write(&format!("{name}/trial.json"), &body)?;
        Ok((record, sha256(&body)))
    }

    /// Writes a file whole or not at all.
    pub fn write(&self, name: &str, body: &[u8]) -> Result<()> {
        replace(&self.tree, name, body)
    }
}

/// Writes a file so that whoever reads it meanwhile, or after a crash, sees the old one or the new one.
pub fn replace(dir: &Tree, name: impl AsRef<Path>, body: &[u8]) -> Result<()> {
    let path = dir.path().join(&name);
    dir.replace(name, body)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Whether an attempt's directory holds something that was seen of its load.
fn has_seen(dir: &Tree) -> bool {
    let files = [
        SECONDS,
        DEFECTS,
        EvidenceFile::Samples.name(),
        EvidenceFile::Counters.name(),
    ];
    let length = |file| dir.metadata(file).map_or(0, |about| about.len());
    files.into_iter().map(length).sum::<u64>() > 0
}

/// Takes the lock. One that was killed, or that is between the two steps of starting a program, holds it for a moment longer.
fn take(lock: &File, path: &Path) -> Result<()> {
    let begin = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_PATIENCE => {
                thread::sleep(LOCK_PATIENCE / 20);
            }
            Err(TryLockError::WouldBlock) => {
                bail!("another bakeoff is at work on this run: {}", path.display())
            }
            Err(TryLockError::Error(why)) => return Err(why).context("cannot lock run directory"),
        }
    }
}

/// SHA-256 of the files of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Of `trial.json`.
    pub record: String,
    /// Of `facts.json`, where there is one.
    pub facts: Option<String>,
}

/// What stands beside `trial.json`.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The system, second by second.
    pub samples: Vec<Sample>,
    /// What the clients saw, second by second, as far as they told.
    pub seconds: Vec<Second>,
    /// What may grow, as it was read.
    pub counters: Vec<Counters>,
    /// What fairness checks compare.
    pub facts: Option<Facts>,
    /// `profile.zst`.
    pub profile: Option<Vec<u8>>,
}

fn attempt_name(trial: &Trial, attempt: u32) -> String {
    match attempt {
        1 => format!("{:03}", trial.number),
        more => format!("{:03}.{more}", trial.number),
    }
}

/// Whether a directory holds a run, whole or damaged.
#[must_use]
pub fn is_run(dir: impl Into<Tree>) -> bool {
    let dir = dir.into();
    [JOURNAL, "plan.toml"].iter().any(|file| dir.has_file(file))
}

/// Whether a bakeoff is at work on a run.
#[must_use]
pub fn is_running(dir: impl Into<Tree>) -> bool {
    dir.into().is_locked("lock")
}

/// Whether there is no journal, or nothing in it but what a file system leaves of a file that it lost.
fn has_no_journal(dir: &Tree) -> bool {
    let journal = match dir.open(JOURNAL) {
        Ok(journal) => journal,
        Err(why) => return why.kind() == ErrorKind::NotFound,
    };
    if journal
        .metadata()
        .is_ok_and(|about| about.len() > BLANK_BYTES)
    {
        return false;
    }
    let is_blank = |byte: u8| byte.is_ascii_whitespace() || byte == 0;
    // Who reads the journal says what else is wrong with it.
    let mut bytes = BufReader::new(journal).bytes();
    bytes.all(|byte| byte.is_ok_and(is_blank))
}

/// Trials without a journal are no run any more.
fn refuse_lost_journal(dir: &Tree) -> Result<()> {
    if has_trials(dir) && has_no_journal(dir) {
        bail!(
            "the journal of a run is lost: {} has trials, and its journal.jsonl is gone or empty (put it back from a copy, or begin a new \
             run with --out DIR)",
            dir.path().display()
        );
    }
    Ok(())
}

/// A run's journal, and the hash of its whole lines.
fn read_journal(dir: &Tree) -> Result<(Vec<Entry>, String)> {
    refuse_lost_journal(dir)?;
    journal::read_hashed(dir)
}

/// Whether a trial was begun in a run.
fn has_trials(dir: &Tree) -> bool {
    let trials = dir.below("trials").list();
    trials.is_ok_and(|trials| !trials.is_empty())
}

/// Whether a directory holds a plan and no figures yet: no journal, or a blank one, and no trial.
#[must_use]
pub fn is_not_begun(dir: impl Into<Tree>) -> bool {
    let dir = dir.into();
    has_no_journal(&dir) && !has_trials(&dir) && dir.has_file("plan.toml")
}

/// Loads a run; it need not be finished. Nothing is changed.
pub fn load(dir: impl Into<Tree>, check: &CheckWorkload<'_>) -> Result<Run> {
    load_from(dir, check, 1)
}

/// The same without the trials of the blocks before one.
pub fn load_from(dir: impl Into<Tree>, check: &CheckWorkload<'_>, first_block: u32) -> Result<Run> {
    let dir = &dir.into();
    let path = &dir.path();
    let plan_path = path.join("plan.toml");
    if !dir.has("plan.toml") {
        bail!(
            "not a run directory: {} (no plan.toml in it: name one that bakeoff run has written)",
            path.display()
        );
    }
    let plan_text = plan::read_text_in(dir, "plan.toml")
        .with_context(|| format!("cannot read plan: {}", plan_path.display()))?;
    let mut plan = plan::read(
        &plan_path.display().to_string(),
        &plan_text,
        path,
        Checks::of_the_past(check),
    )?;
    let (entries, journal_sha256) = read_journal(dir)?;
    let Some(Event::Opened(opening)) = entries.first().map(|entry| entry.event.clone()) else {
        bail!(
            "run has not begun: {} (finish it with bakeoff run)",
            path.display()
        );
    };
    refuse_damaged_journal(path, &entries, &plan)?;
    refuse_changed_plan(&plan_path, &plan_text, &opening)?;
    plan.design.more_blocks = more_blocks(&entries, plan.design.max_blocks);
    let invalid = invalidated(&entries);
    let (mut attempts, mut facts, mut struck) = (Vec::new(), Vec::new(), Vec::new());
    let (mut missing, mut long) = (Vec::new(), Vec::new());
    for entry in &entries {
        if let Event::Ended {
            trial,
            attempt,
            record,
            facts: of_facts,
            ..
        } = &entry.event
            && first_block <= trial.block
        {
            let record = load_attempt(dir, trial, *attempt, record)?;
            if is_struck(&record, &invalid) {
                struck.push(record);
            } else {
                let of_facts = of_facts.as_deref();
                let dir = dir.below("trials").below(attempt_name(trial, *attempt));
                facts.push(load_evidence(&dir, &record, of_facts, &mut missing));
                long.extend(load_long(&dir, &record, &mut missing));
                attempts.push(record);
            }
        }
    }
    let turn = Turn::of(&entries, &plan);
    let profiled = load_profiled(dir, &entries)?;
    let mut run = Run {
        plan,
        plan_text,
        opening,
        entries,
        journal_sha256: Some(journal_sha256),
        attempts,
        struck,
        profiled,
        facts,
        long,
        missing,
        models: load_models(dir)?,
        accepted: load_accepted(dir)?,
        history: load_history(dir)?,
    };
    run.keep(|trial| turn.has_come(trial));
    Ok(run)
}

fn refuse_damaged_journal(path: &Path, entries: &[Entry], plan: &Plan) -> Result<()> {
    let whole = journal::check_whole(entries);
    if let Err(why) = whole.and_then(|()| journal::check_trials(entries, plan)) {
        let journal = path.join("journal.jsonl");
        bail!(
            "damaged journal: {}: {why} ({})",
            journal.display(),
            journal::RESTORE
        );
    }
    Ok(())
}

/// The records of trials that were run for their profile alone.
fn load_profiled(dir: &Tree, entries: &[Entry]) -> Result<Vec<TrialRecord>> {
    let mut profiled = Vec::new();
    for entry in entries {
        if let Event::Profiled {
            trial,
            attempt,
            record,
            ..
        } = &entry.event
        {
            let series = dir.below(Series::Profiled.folder());
            profiled.push(load_trial(&series, trial, *attempt, record)?);
        }
    }
    Ok(profiled)
}

/// A margin or an error rate that is chosen after the figures were seen holds nothing.
fn refuse_changed_plan(path: &Path, text: &str, opening: &Opening) -> Result<()> {
    let now = sha256(text.as_bytes());
    match opening.inputs.get("plan") {
        Some(then) if *then != now => bail!(
            "the plan was changed after the run began: {} (its SHA-256 was {}, is {}: put it back, or run the changed plan with \
             --out DIR)",
            path.display(),
            short(then),
            short(&now)
        ),
        _ => Ok(()),
    }
}

/// The first digits of a hash, for people.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// Which blocks' turn has come. Where several trials run at a time, some of the next block may have ended before their
/// own is looked at, and a look may find that they are not needed.
struct Turn {
    /// Blocks that the last look covered.
    looked: u32,
    /// The block that decided a workload.
    decided: BTreeMap<String, u32>,
}

impl Turn {
    fn of(entries: &[Entry], plan: &Plan) -> Self {
        let mut turn = Self {
            looked: 0,
            decided: BTreeMap::new(),
        };
        for entry in entries {
            if let Event::Extended { undecided, .. } = &entry.event {
                // Those workloads were ended by the plan, and go on.
                turn.decided
                    .retain(|workload, _| !undecided.contains(workload));
            }
            let Event::Looked {
                blocks, undecided, ..
            } = &entry.event
            else {
                continue;
            };
            turn.looked = *blocks;
            for workload in &plan.workloads {
                if !undecided.contains(&workload.id) {
                    let block = turn.decided.entry(workload.id.clone());
                    block.or_insert(*blocks);
                }
            }
        }
        turn
    }

    fn has_come(&self, trial: &Trial) -> bool {
        let decided = self.decided.get(&trial.workload).copied();
        trial.block <= decided.unwrap_or(self.looked + 1)
    }
}

fn load_models(dir: &Tree) -> Result<Option<Models>> {
    let path = dir.path().join(MODELS);
    let body = match dir.read(MODELS, FILE_BYTES) {
        Ok(body) => body,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
    };
    let models: Models = json::read(&body, FILE_VALUES).with_context(|| {
        format!(
            "damaged file: {} (remove it, and run with --models)",
            path.display()
        )
    })?;
    if models.version > models::VERSION {
        bail!(
            "file of a newer bakeoff: {} (use that version)",
            path.display()
        );
    }
    Ok(Some(models))
}

/// The A/A runs that the machine had when the run began; `None` where their file is gone.
pub fn load_history(dir: impl Into<Tree>) -> Result<Option<History>> {
    let dir = dir.into();
    let path = dir.path().join(A_A);
    let body = match dir.read(A_A, FILE_BYTES) {
        Ok(body) => body,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
    };
    let history: History = json::read(&body, FILE_VALUES).with_context(|| {
        format!(
            "damaged file: {} (remove it: the history is then not known)",
            path.display()
        )
    })?;
    if history.version > a_a::VERSION {
        bail!(
            "file of a newer bakeoff: {} (use that version)",
            path.display()
        );
    }
    Ok(Some(history))
}

/// What `accept` has written; nothing where there is no such file.
pub fn load_accepted(dir: impl Into<Tree>) -> Result<BTreeMap<String, String>> {
    let dir = dir.into();
    let path = dir.path().join(ACCEPTED);
    let body = match dir.read(ACCEPTED, FILE_BYTES) {
        Ok(body) => body,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(why) => return Err(why).with_context(|| format!("cannot read {}", path.display())),
    };
    let damaged = || {
        format!(
            "damaged file: {} (remove it, and accept again)",
            path.display()
        )
    };
    let accepted: BTreeMap<String, String> =
        json::read(&body, FILE_VALUES).with_context(damaged)?;
    if let Some((id, _)) = accepted.iter().find(|(_, reason)| reason.trim().is_empty()) {
        return Err(anyhow!("no reason for {id:?}")).with_context(damaged);
    }
    Ok(accepted)
}

/// Blocks that a run was given beyond its plan's.
pub fn more_blocks(entries: &[Entry], max_blocks: u32) -> u32 {
    last_extension(entries).map_or(0, |(to, _)| to.saturating_sub(max_blocks))
}

/// The last block that the run was given later, and the error rate that it then had.
fn last_extension(entries: &[Entry]) -> Option<(u32, f64)> {
    entries.iter().rev().find_map(|entry| {
        let Event::Extended { to, error_rate, .. } = &entry.event else {
            return None;
        };
        Some((*to, *error_rate))
    })
}

/// Whether a trial does not count because its block was invalidated. One that failed has failed, whatever disturbed its block.
fn is_struck(record: &TrialRecord, invalid: &BTreeSet<u32>) -> bool {
    invalid.contains(&record.trial.number) && matches!(record.outcome, Outcome::Measured(_))
}

/// Numbers of the trials of invalidated blocks.
fn invalidated(entries: &[Entry]) -> BTreeSet<u32> {
    let trials = |entry: &Entry| match &entry.event {
        Event::Invalidated { trials, .. } => trials.clone(),
        Event::Opened(_)
        | Event::Resumed { .. }
        | Event::Ceiling { .. }
        | Event::OneFewer { .. }
        | Event::Merged { .. }
        | Event::Started { .. }
        | Event::Ended { .. }
        | Event::Looked { .. }
        | Event::Profiling { .. }
        | Event::Profiled { .. }
        | Event::Closed { .. }
        | Event::Extended { .. } => Vec::new(),
    };
    entries.iter().flat_map(trials).collect()
}

/// The record of an attempt that the run's journal names by its hash.
pub fn load_attempt(
    run: impl Into<Tree>,
    trial: &Trial,
    attempt: u32,
    sha: &str,
) -> Result<TrialRecord> {
    let series = run.into().below(Series::Judged.folder());
    load_trial(&series, trial, attempt, sha)
}

fn load_trial(series: &Tree, trial: &Trial, attempt: u32, sha: &str) -> Result<TrialRecord> {
    let dir = series.below(attempt_name(trial, attempt));
    let path = dir.path().join("trial.json");
    let told = |what: &str| format!("{what}: {} ({RESTORE})", path.display());
    let body = dir
        .read("trial.json", RECORD_BYTES)
        .with_context(|| told("lost record"))?;
    if sha256(&body) != sha {
        bail!(told("record is not the one that the journal names"));
    }
    let mut record: TrialRecord =
        json::read(&body, FILE_VALUES).with_context(|| told("damaged record"))?;
    if record.version > TRIAL_VERSION {
        bail!(
            "record of a newer bakeoff: {} (use that version)",
            path.display()
        );
    }
    if record.trial != *trial || record.attempt != attempt {
        bail!(told(&format!(
            "record of {}, attempt {}, where the journal has {trial}, attempt {attempt}",
            record.trial, record.attempt
        )));
    }
    check_record(&mut record)
        .map_err(Error::msg)
        .with_context(|| told("damaged record"))?;
    Ok(record)
}

/// What to do about a record that is not as the trial wrote it.
const RESTORE: &str = "put it back from a copy, or begin a new run with --out DIR";

/// An attempt's facts; what of its evidence cannot be used is noted. Its figures stand in its record, so that a verdict
/// needs none of it.
fn load_evidence(
    dir: &Tree,
    record: &TrialRecord,
    of_facts: Option<&str>,
    missing: &mut Vec<MissingEvidence>,
) -> Option<Facts> {
    let mut note = |file, damage| {
        missing.push(MissingEvidence {
            trial: record.trial.clone(),
            attempt: record.attempt,
            file,
            damage,
        });
    };
    let facts = load_facts(dir, of_facts);
    if let Outcome::Measured(measurement) = &record.outcome {
        if let Err(damage) = &facts {
            note(EvidenceFile::Facts, *damage);
        }
        if has_samples(measurement)
            && let Err(damage) = check_samples(dir)
        {
            note(EvidenceFile::Samples, damage);
        }
    }
    facts.ok()
}

/// What an attempt has that was under load for long. Counters that cannot be read are noted; seconds of an attempt that failed are
/// left out then, as what was never heard.
fn load_long(
    dir: &Tree,
    record: &TrialRecord,
    missing: &mut Vec<MissingEvidence>,
) -> Option<LongEvidence> {
    let counters = load_counters(dir);
    if let Err(damage) = &counters {
        missing.push(MissingEvidence {
            trial: record.trial.clone(),
            attempt: record.attempt,
            file: EvidenceFile::Counters,
            damage: *damage,
        });
    }
    let (seconds, disturbances) = match &record.outcome {
        Outcome::Void(_) => (
            load_seconds(dir).unwrap_or_default(),
            load_begun(dir).unwrap_or_default(),
        ),
        Outcome::Measured(_) | Outcome::Skipped(_) => (Vec::new(), Vec::new()),
    };
    let counters = counters.unwrap_or_default();
    let is_empty = counters.is_empty() && seconds.is_empty();
    (!is_empty).then(|| LongEvidence {
        trial: record.trial.clone(),
        attempt: record.attempt,
        counters,
        seconds,
        disturbances,
    })
}

/// Most trials are short and have none.
fn load_counters(dir: &Tree) -> Result<Vec<Counters>, Damage> {
    let file = EvidenceFile::Counters.name();
    if !dir.has(file) {
        return Ok(Vec::new());
    }
    let readings: Vec<Counters> = streamed::read(dir, file).map_err(|_| Damage::Damaged)?;
    let mut last_ms = i64::MIN;
    for one in &readings {
        validate::counters(one, last_ms).map_err(|_| Damage::Damaged)?;
        last_ms = one.at_ms;
    }
    Ok(readings)
}

fn load_seconds(dir: &Tree) -> Option<Vec<Second>> {
    let seconds: Vec<Second> = streamed::read(dir, SECONDS).ok()?;
    let mut last_ms = 0;
    for one in &seconds {
        validate::second(one, last_ms).ok()?;
        last_ms = one.at_ms;
    }
    Some(seconds)
}

fn load_begun(dir: &Tree) -> Option<Vec<BegunDisturbance>> {
    let mut begun = read_begun(dir, DISTURBANCES).ok()?;
    begun
        .iter_mut()
        .try_for_each(validate::begun_disturbance)
        .ok()?;
    Some(begun)
}

/// Whether a trial was sampled: one that was shorter than the sampler's second was not.
fn has_samples(measurement: &Measurement) -> bool {
    measurement.usage.memory_used_bytes > 0
}

/// A file that was written whole ends in a line's end.
fn check_samples(dir: &Tree) -> Result<(), Damage> {
    let last_byte = || -> std::io::Result<u8> {
        let mut file = dir.open(EvidenceFile::Samples.name())?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        Ok(last[0])
    };
    match last_byte() {
        Ok(b'\n') => Ok(()),
        Ok(_) => Err(Damage::Damaged),
        Err(why) => Err(Damage::of(&why)),
    }
}

/// Facts that are not those that were recorded tell nothing.
fn load_facts(dir: &Tree, sha: Option<&str>) -> Result<Facts, Damage> {
    let body = dir.read(EvidenceFile::Facts.name(), FACTS_BYTES);
    let body = body.map_err(|why| Damage::of(&why))?;
    let mut facts: Facts = json::read(&body, FACTS_VALUES).map_err(|_| Damage::Damaged)?;
    if sha.is_some_and(|sha| sha256(&body) != sha) {
        return Err(Damage::Changed);
    }
    validate::facts(&mut facts).map_err(|_| Damage::Damaged)?;
    Ok(facts)
}
