//! The run directory: plan, journal, trials, verdict and report of one experiment.
//!
//! ```text
//! plan.toml            the plan as it was when the run began
//! journal.jsonl        what happened (`journal`)
//! trials/007/          one attempt at a trial; a second attempt is trials/007.2
//!   trial.json         the trial's record: outcome and figures
//!   samples.jsonl      the system second by second (`evidence::Sample`), written during the trial; thinned in long trials
//!   seconds.jsonl      the clients second by second (`load::Second`), written during the trial; kept only if it failed
//!   defects.jsonl      defects of kernel and services (`defect::FoundDefect`), written during the trial; a defect's last line counts
//!   disturbances.jsonl planned disturbances (`disturbances::BegunDisturbance`), written during the trial; kept only if it failed
//!   facts.json         facts that fairness checks compare (`evidence::Facts`)
//!   console.log        the guest's console
//!   profile.zst        the profile (`profiler::format`), in runs that explain differences
//! trials/007.interrupted-1/    files of an attempt that was interrupted and started again
//! profiled/003/        the same of a trial that ran only for its profile; the verdict ignores it
//! verdict.json         `judge::Judgement`
//! accepted.json        fairness checks whose failure the user accepts, with reasons
//! a-a.json             A/A runs of the machine when the run began (`a_a::History`)
//! fleet.json, blocks/   blocks that nodes of a cluster ran (`fleet`)
//! models.json          results on other emulated CPUs (`models::Models`), their runs in models/NAME/
//! report.html, report.md
//! ```
//! It contains no absolute path and no host name, so it can be moved and judged on another host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
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
use crate::fleet::{FLEET, NODE};
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

/// Longest `facts.json`, in bytes. A guest's facts are bounded when they are received; they have some hundred KiB.
const FACTS_BYTES: u64 = 4 << 20;

/// Longest other JSON file, in bytes.
const FILE_BYTES: u64 = 64 << 20;

/// Most values in `trial.json` and in the other files.
const FILE_VALUES: usize = 1 << 20;

/// Most values in `facts.json`.
const FACTS_VALUES: usize = 1 << 15;

/// Longest journal that can count as blank, in bytes. Reading a longer one reports what is wrong with it.
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
    /// Host time of each phase, in their order; empty if nothing was booted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_time: Vec<PhaseTime>,
    /// Its profile; `None` if none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileNote>,
    /// Defects of its kernel and services; `None` if nothing was booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defects: Option<DefectLog>,
}

/// Checks what the rest of the program relies on in an attempt's record, and removes control characters from its texts.
pub fn check_record(record: &mut TrialRecord) -> Result<(), String> {
    // The journal identifies the trial, so that part is not checked here.
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

/// File of the planned disturbances, in the directory of an attempt (`disturbances::BegunDisturbance`).
pub const DISTURBANCES: &str = "disturbances.jsonl";

/// File of the clients' timeline, in the directory of an attempt without a result.
pub const SECONDS: &str = "seconds.jsonl";

/// File of the defects, in the directory of an attempt.
pub const DEFECTS: &str = "defects.jsonl";

/// File of the profile, in the directory of an attempt.
pub const PROFILE: &str = "profile.zst";

/// File of the explanations, in the directory of a profiled run.
pub const WHY: &str = "why.json";

/// Profile of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileNote {
    /// Instructions were counted; the profile is in `PROFILE`.
    Kept {
        /// SHA-256 of the file.
        sha256: String,
        /// Its instructions, without those of the idle task.
        busy_instructions: u64,
    },
    /// What ran was sampled; the profile is in `PROFILE`.
    Sampled {
        /// SHA-256 of the file.
        sha256: String,
        /// Number of samples.
        samples: u64,
        /// Samples that were lost.
        lost: u64,
    },
    /// There is no profile, with the reason.
    Missing(String),
}

/// Purpose of attempts at trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    /// For the verdict.
    Judged,
    /// For a sampled profile. Sampling costs time, so the verdict ignores these trials; they have separate numbers.
    Profiled,
}

impl Series {
    /// The directory that contains its attempts' directories.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Judged => "trials",
            Self::Profiled => "profiled",
        }
    }
}

/// A run as read from its directory, for judging and reporting.
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
    /// SHA-256 of the journal, which contains that of each record; `None` if the run was not read from a directory.
    pub journal_sha256: Option<String>,
    /// All ended attempts in the order of their ends, including retried ones; without those of `invalidated`.
    pub attempts: Vec<TrialRecord>,
    /// Measured trials of invalidated blocks. They show what is usual on the machine, and do not count for the arms.
    pub invalidated: Vec<TrialRecord>,
    /// All ended attempts at trials that ran only for their profile, in the order of their ends.
    pub profiled: Vec<TrialRecord>,
    /// Facts of measured attempts, by the same index as `attempts`; `None` without facts.
    pub facts: Vec<Option<Facts>>,
    /// Further evidence of attempts with a long load.
    pub long: Vec<LongEvidence>,
    /// Evidence of measured attempts that is lost or damaged, in the order of `attempts`.
    pub missing: Vec<MissingEvidence>,
    /// Results on other emulated CPUs, if there are any.
    pub models: Option<Models>,
    /// Fairness checks whose failure the user accepts: reasons by id.
    pub accepted: BTreeMap<String, String>,
    /// A/A runs of the machine when the run began; `None` if their file is gone.
    pub history: Option<History>,
}

impl Run {
    /// A run in progress, as decisions need it: without evidence files, and without trials of later blocks (`Turn`).
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
        let (invalidated, attempts): (Vec<_>, Vec<_>) =
            records.partition(|record| is_invalidated(record, &invalid));
        let turn = Turn::of(entries, &plan);
        let mut run = Self {
            plan,
            plan_text: String::new(),
            opening: opening.clone(),
            entries: entries.to_vec(),
            journal_sha256: None,
            facts: vec![None; attempts.len()],
            attempts,
            invalidated,
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

    /// The node that ran each block, in a fleet's run.
    pub fn nodes(&self) -> BTreeMap<u32, &Node> {
        let merged = self.entries.iter().filter_map(|entry| {
            let Event::Merged { block, node, .. } = &entry.event else {
                return None;
            };
            Some((*block, node))
        });
        merged.collect()
    }

    /// Why the run is over; `None` if it is not.
    pub fn closed(&self) -> Option<&CloseReason> {
        let mut last = None;
        for entry in &self.entries {
            if let Event::Closed { reason } = &entry.event {
                last = Some(reason);
            } else if let Event::Extended { .. } = &entry.event {
                last = None;
            }
        }
        last
    }

    /// The run's error rate: that of its plan, or that of its last extension.
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
        let mut attempts = self.attempts.iter();
        self.facts.retain(|_| {
            attempts
                .next()
                .is_some_and(|attempt| wanted(&attempt.trial))
        });
        self.attempts.retain(|attempt| wanted(&attempt.trial));
        self.invalidated.retain(|attempt| wanted(&attempt.trial));
        self.missing.retain(|missing| wanted(&missing.trial));
        self.long.retain(|evidence| wanted(&evidence.trial));
    }
}

/// Evidence of an attempt with a long load, beside its record.
#[derive(Debug, Clone, PartialEq)]
pub struct LongEvidence {
    /// Which trial.
    pub trial: Trial,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// Readings of counters that may grow.
    pub counters: Vec<Counters>,
    /// The clients' timeline, if the attempt failed; otherwise it is in the record.
    pub seconds: Vec<Second>,
    /// Planned disturbances, if the attempt failed; otherwise they are in the record.
    pub disturbances: Vec<BegunDisturbance>,
}

/// An unusable file that a measured attempt must have beside its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingEvidence {
    /// Which trial.
    pub trial: Trial,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// The file.
    pub file: EvidenceFile,
    /// What is wrong with it.
    pub damage: Damage,
}

impl MissingEvidence {
    /// The name of its attempt's directory: `007`, or `007.2`.
    pub fn attempt_name(&self) -> String {
        attempt_name(&self.trial, self.attempt)
    }
}

/// File of the results on other emulated CPUs.
pub const MODELS: &str = "models.json";

/// File of the fairness checks whose failure the user accepts: ids and reasons.
pub const ACCEPTED: &str = "accepted.json";

/// File of the A/A runs that the machine had when the run began.
pub const A_A: &str = "a-a.json";

/// Directories of a run.
pub const FOLDERS: [&str; 4] = ["trials", "profiled", "models", "blocks"];

/// Files of a run, and of the trials, blocks and models in it; `docs/reference/run-directory.md` describes them.
const RECORDS: [&str; 22] = [
    A_A,
    ACCEPTED,
    "clients.log",
    "console.log",
    "counters.jsonl",
    DEFECTS,
    DISTURBANCES,
    "facts.json",
    FLEET,
    journal::JOURNAL,
    "kvm.log",
    MODELS,
    NODE,
    "plan.toml",
    PROFILE,
    "report.html",
    "report.md",
    "samples.jsonl",
    SECONDS,
    "trial.json",
    "verdict.json",
    WHY,
];

/// Whether a run has files of this name.
pub fn is_record(name: &str) -> bool {
    let is_of_cluster = name.ends_with(".failures.jsonl") || name.starts_with("slurm-");
    RECORDS.contains(&name) || is_of_cluster
}

/// Whether a file of this name is held by a process that works on a run or a block, and is empty.
pub fn is_lock(name: &str) -> bool {
    name == "lock" || Path::new(name).extension().is_some_and(|end| end == "lock")
}

/// How long to wait for another process to release a run's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A locked run directory: one process at a time works on it.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    tree: Tree,
    // Held for its lock, which the kernel releases when the process ends.
    _lock: File,
}

impl RunDir {
    /// Opens `path` to run a plan, and creates it with `plan_text` if it does not exist. The plan of a run that has not begun is
    /// replaced by `plan_text`.
    pub fn open(path: &Path, plan_text: &str) -> Result<Self> {
        let existing = Tree::at(path);
        let is_new = !existing.has("plan.toml");
        refuse_lost_journal(&existing)?;
        let is_empty = existing.list().map_or(true, |entries| entries.is_empty());
        if is_new && !is_empty && !existing.has("lock") {
            bail!(
                "directory holds something other than a run: {} (name another with --out)",
                path.display()
            );
        }
        let cannot_create = || format!("cannot create run directory: {}", path.display());
        let tree = Tree::to_write(path).with_context(cannot_create)?;
        tree.make_dir("trials").with_context(cannot_create)?;
        // Fails here rather than after downloads for the run.
        if let Err(why) = tree.open(JOURNAL)
            && why.kind() != ErrorKind::NotFound
        {
            let journal = path.join(JOURNAL);
            return Err(why).with_context(|| format!("cannot open journal: {}", journal.display()));
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
        if is_new || has_no_journal(&dir.tree) {
            dir.write("plan.toml", plan_text.as_bytes())?;
        }
        Ok(dir)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its files.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Creates the directory of one attempt. If an interrupted attempt left results of its load there, its directory is renamed,
    /// otherwise it is removed.
    pub fn trial_dir(&self, series: Series, trial: &Trial, attempt: u32) -> Result<PathBuf> {
        let name = attempt_name(trial, attempt);
        let series = self.tree.below(series.folder());
        if has_load_results(&series.below(&name)) {
            let mut names = (1_u32..).map(|number| format!("{name}.interrupted-{number}"));
            let free = names.find(|name| !series.has(name));
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

    /// Writes the record of an attempt and its evidence; returns the hashes for the journal.
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
        let mut facts_sha256 = None;
        let is_measured = matches!(record.outcome, Outcome::Measured(_));
        if !is_measured && !evidence.seconds.is_empty() {
            let lines = streamed::lines(&evidence.seconds)?;
            self.write(&format!("{name}/{SECONDS}"), &lines)?;
        }
        if let Some(facts) = &evidence.facts {
            let body = serde_json::to_vec_pretty(facts)?;
            self.write(&format!("{name}/facts.json"), &body)?;
            facts_sha256 = Some(sha256(&body));
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
        if is_measured {
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
            facts: facts_sha256,
        })
    }

    /// Copies an attempt from another run directory, where its trial is `source_trial`; here it is `trial`. Files are hard-linked where
    /// possible. Returns the record and its new hash.
    pub fn take_over(
        &self,
        from: &Path,
        source_trial: &Trial,
        trial: &Trial,
        attempt: u32,
        sha: &str,
    ) -> Result<(TrialRecord, String)> {
        let folder = Series::Judged.folder();
        let from = Tree::at(from);
        let source_name = attempt_name(source_trial, attempt);
        let source = from.below(folder).below(source_name);
        let name = format!("{folder}/{}", attempt_name(trial, attempt));
        let mut record = load_attempt(&from, source_trial, attempt, sha)?;
        let target = self.tree.below(&name);
        self.tree
            .remove_all(&name)
            .with_context(|| format!("cannot clear {}", target.path().display()))?;
        self.tree
            .make_dir(&name)
            .with_context(|| format!("cannot create {}", target.path().display()))?;
        for entry in source.list().context("cannot read a block's trial")? {
            let file = entry.name;
            if file == "trial.json" || !entry.kind.is_file() {
                continue;
            }
            if target.link_from(&source, &file, &file).is_err() {
                let copy = || io::copy(&mut source.open(&file)?, &mut target.create(&file)?);
                copy().with_context(|| {
                    format!("cannot write {}", target.path().join(&file).display())
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

/// Replaces a file atomically: a reader sees the old content or the new one, even after a crash.
pub fn replace(dir: &Tree, name: impl AsRef<Path>, body: &[u8]) -> Result<()> {
    let path = dir.path().join(&name);
    dir.replace(name, body)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Whether an attempt's directory contains results of its load.
fn has_load_results(dir: &Tree) -> bool {
    let files = [
        SECONDS,
        DEFECTS,
        EvidenceFile::Samples.name(),
        EvidenceFile::Counters.name(),
    ];
    files
        .into_iter()
        .any(|file| dir.metadata(file).is_ok_and(|metadata| metadata.len() > 0))
}

/// Takes the lock. It waits a moment, because a process that was killed, or one between fork and exec, may still hold the lock.
fn take(lock: &File, path: &Path) -> Result<()> {
    let begin = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_TIMEOUT => {
                thread::sleep(LOCK_TIMEOUT / 20);
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
    /// Of `facts.json`, if it exists.
    pub facts: Option<String>,
}

/// Evidence of an attempt, for files beside `trial.json`.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The system second by second.
    pub samples: Vec<Sample>,
    /// The clients second by second, as far as received.
    pub seconds: Vec<Second>,
    /// Readings of counters that may grow.
    pub counters: Vec<Counters>,
    /// Facts that fairness checks compare.
    pub facts: Option<Facts>,
    /// Content of `profile.zst`.
    pub profile: Option<Vec<u8>>,
}

fn attempt_name(trial: &Trial, attempt: u32) -> String {
    match attempt {
        1 => format!("{:03}", trial.number),
        more => format!("{:03}.{more}", trial.number),
    }
}

/// Whether a directory contains a run, even a damaged one.
#[must_use]
pub fn is_run(dir: impl Into<Tree>) -> bool {
    let dir = dir.into();
    [JOURNAL, "plan.toml"].iter().any(|file| dir.has_file(file))
}

/// Whether a bakeoff process is working on a run.
#[must_use]
pub fn is_running(dir: impl Into<Tree>) -> bool {
    dir.into().is_locked("lock")
}

/// Whether there is no journal, or only whitespace and zeros, as file systems leave after a crash.
fn has_no_journal(dir: &Tree) -> bool {
    let journal = match dir.open(JOURNAL) {
        Ok(journal) => journal,
        Err(why) => return why.kind() == ErrorKind::NotFound,
    };
    let is_long = |metadata: fs::Metadata| metadata.len() > BLANK_BYTES;
    if journal.metadata().is_ok_and(is_long) {
        return false;
    }
    let is_blank = |byte: u8| byte.is_ascii_whitespace() || byte == 0;
    // A read error is reported when the journal is read.
    let mut bytes = BufReader::new(journal).bytes();
    bytes.all(|byte| byte.is_ok_and(is_blank))
}

/// Refuses trials without a journal: they cannot be continued or judged.
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

/// Entries of a run's journal, and the SHA-256 of its whole lines.
fn read_journal(dir: &Tree) -> Result<(Vec<Entry>, String)> {
    refuse_lost_journal(dir)?;
    journal::read_hashed(dir)
}

/// Whether a run has directories of trials.
fn has_trials(dir: &Tree) -> bool {
    let trials = dir.below("trials").list();
    trials.is_ok_and(|trials| !trials.is_empty())
}

/// Whether a directory has a plan, but no trial and no journal, or a blank one.
#[must_use]
pub fn is_not_begun(dir: impl Into<Tree>) -> bool {
    let dir = dir.into();
    has_no_journal(&dir) && !has_trials(&dir) && dir.has_file("plan.toml")
}

/// Loads a run, finished or not, without changing it.
pub fn load(dir: impl Into<Tree>, check: &CheckWorkload<'_>) -> Result<Run> {
    load_from(dir, check, 1)
}

/// Like `load`, without the trials of the blocks before `first_block`.
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
    let (mut attempts, mut facts, mut invalidated) = (Vec::new(), Vec::new(), Vec::new());
    let (mut missing, mut long) = (Vec::new(), Vec::new());
    for entry in &entries {
        if let Event::Ended {
            trial,
            attempt,
            record,
            facts: facts_sha256,
            ..
        } = &entry.event
            && first_block <= trial.block
        {
            let record = load_attempt(dir, trial, *attempt, record)?;
            if is_invalidated(&record, &invalid) {
                invalidated.push(record);
            } else {
                let facts_sha256 = facts_sha256.as_deref();
                let dir = dir.below("trials").below(attempt_name(trial, *attempt));
                facts.push(load_evidence(&dir, &record, facts_sha256, &mut missing));
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
        invalidated,
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

/// The records of trials that ran only for their profile.
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

/// Refuses a plan that was changed after the run began: a margin or an error rate chosen with the figures at hand proves nothing.
fn refuse_changed_plan(path: &Path, text: &str, opening: &Opening) -> Result<()> {
    let sha256 = sha256(text.as_bytes());
    match opening.inputs.get("plan") {
        Some(opened_sha256) if *opened_sha256 != sha256 => bail!(
            "the plan was changed after the run began: {} (its SHA-256 was {}, is {}: put it back, or run the changed plan with \
             --out DIR)",
            path.display(),
            short(opened_sha256),
            short(&sha256)
        ),
        _ => Ok(()),
    }
}

/// The first digits of a hash, for messages.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// Which trials count. If several trials run at a time, trials of the next block may end before the interim analysis of
/// the current one, which may find that they are not needed.
struct Turn {
    /// Blocks at the last interim analysis.
    judged: u32,
    /// The block that decided a workload.
    decided: BTreeMap<String, u32>,
}

impl Turn {
    fn of(entries: &[Entry], plan: &Plan) -> Self {
        let mut turn = Self {
            judged: 0,
            decided: BTreeMap::new(),
        };
        for entry in entries {
            if let Event::Extended { undecided, .. } = &entry.event {
                // These workloads had reached the plan's limit of blocks, and continue.
                turn.decided
                    .retain(|workload, _| !undecided.contains(workload));
            }
            let Event::InterimAnalysis {
                blocks, undecided, ..
            } = &entry.event
            else {
                continue;
            };
            turn.judged = *blocks;
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
        trial.block <= decided.unwrap_or(self.judged + 1)
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

/// The A/A runs that the machine had when the run began; `None` if their file is gone.
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

/// Fairness checks whose failure the user accepts: reasons by id. Empty if there is no file.
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

/// Number of blocks that extensions added to the plan's `max_blocks`.
pub fn more_blocks(entries: &[Entry], max_blocks: u32) -> u32 {
    last_extension(entries).map_or(0, |(to, _)| to.saturating_sub(max_blocks))
}

/// Block limit and error rate of the last extension.
fn last_extension(entries: &[Entry]) -> Option<(u32, f64)> {
    entries.iter().rev().find_map(|entry| {
        let Event::Extended { to, error_rate, .. } = &entry.event else {
            return None;
        };
        Some((*to, *error_rate))
    })
}

/// Whether a trial does not count because its block was invalidated. A failed trial counts as failed in any case.
fn is_invalidated(record: &TrialRecord, invalid: &BTreeSet<u32>) -> bool {
    invalid.contains(&record.trial.number) && matches!(record.outcome, Outcome::Measured(_))
}

/// Numbers of the trials of invalidated blocks.
fn invalidated(entries: &[Entry]) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    for entry in entries {
        if let Event::Invalidated { trials, .. } = &entry.event {
            numbers.extend(trials);
        }
    }
    numbers
}

/// Loads the record of an attempt; `sha` is its hash in the run's journal.
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
    let message = |what: &str| format!("{what}: {} ({RESTORE})", path.display());
    let body = dir
        .read("trial.json", RECORD_BYTES)
        .with_context(|| message("lost record"))?;
    if sha256(&body) != sha {
        bail!(message("record is not the one that the journal names"));
    }
    let mut record: TrialRecord =
        json::read(&body, FILE_VALUES).with_context(|| message("damaged record"))?;
    if record.version > TRIAL_VERSION {
        bail!(
            "record of a newer bakeoff: {} (use that version)",
            path.display()
        );
    }
    if record.trial != *trial || record.attempt != attempt {
        bail!(message(&format!(
            "record of {}, attempt {}, where the journal has {trial}, attempt {attempt}",
            record.trial, record.attempt
        )));
    }
    check_record(&mut record)
        .map_err(Error::msg)
        .with_context(|| message("damaged record"))?;
    Ok(record)
}

/// Remedy for a record that is not as the trial wrote it.
const RESTORE: &str = "put it back from a copy, or begin a new run with --out DIR";

/// Loads an attempt's facts, and notes unusable evidence in `missing`. A verdict needs only the record, which has the figures.
fn load_evidence(
    dir: &Tree,
    record: &TrialRecord,
    facts_sha256: Option<&str>,
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
    let facts = load_facts(dir, facts_sha256);
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

/// Loads the further evidence of an attempt with a long load. Unreadable counters are noted in `missing`; unreadable seconds and
/// disturbances of a failed attempt are left out.
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

/// Short trials, which are most, have no counters.
fn load_counters(dir: &Tree) -> Result<Vec<Counters>, Damage> {
    let file = EvidenceFile::Counters.name();
    if !dir.has(file) {
        return Ok(Vec::new());
    }
    let readings: Vec<Counters> = streamed::read(dir, file).map_err(|_| Damage::Damaged)?;
    let mut last_ms = i64::MIN;
    for reading in &readings {
        validate::counters(reading, last_ms).map_err(|_| Damage::Damaged)?;
        last_ms = reading.at_ms;
    }
    Ok(readings)
}

fn load_seconds(dir: &Tree) -> Option<Vec<Second>> {
    let seconds: Vec<Second> = streamed::read(dir, SECONDS).ok()?;
    validate::seconds(&seconds).ok()?;
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

/// Whether a trial was sampled. Trials shorter than the sampling interval are not.
fn has_samples(measurement: &Measurement) -> bool {
    measurement.usage.memory_used_bytes > 0
}

/// Checks that the samples end with a line feed, as every complete file does.
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

/// Loads the facts, and checks their hash.
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
