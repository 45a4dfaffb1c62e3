//! One watched run: the state of its directory, and its judgement so far.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::evidence::{EvidenceFile, Sample};
use crate::journal;
use crate::journal::{CloseReason, Entry, Event, Opening, Parser};
use crate::load::Second;
use crate::rundir;
use crate::rundir::{DEFECTS, Run, SECONDS, Series};
use crate::trial::Outcome;
use crate::verdict::{Conclusion, Headline, Judgement};
use base::input::tree::Tree;
use plan::{Checks, MachineKind, Plan, WorkloadPlan};
use strum::IntoStaticStr;

use crate::live::tail::Tail;
use crate::live::{
    Activity, Attempt, Callbacks, Curve, Left, MEASURED_PACE, PACE, Seen, attempts, defects, left,
};

/// Judging pauses for this many times its cost, so that it takes at most a twentieth of the time.
const PAUSE_FACTOR: u32 = 20;

/// Least time until a run that could not be loaded is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum State {
    /// The directory does not exist yet, or is empty.
    #[strum(serialize = "not there yet")]
    NotThere,
    /// It has a plan and nothing else.
    #[strum(serialize = "not begun")]
    NotBegun,
    /// A bakeoff process is working on it.
    Running,
    /// It is not over and can be resumed.
    Interrupted,
    /// It is over, and all arms are decided.
    Finished,
    /// It is over, and an arm is undecided.
    Undecided,
    /// It is over because all trials of the baseline, or of all other arms, failed.
    Failed,
    /// It cannot be read.
    Damaged,
    /// It was removed.
    Gone,
}

impl State {
    /// The state in a word or two.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Whether the run is over.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Undecided | Self::Failed)
    }
}

/// Why a directory cannot be read, with the path.
pub type Problem = String;

/// State of a directory at one time.
#[derive(Clone)]
pub struct Snapshot {
    /// The directory's name.
    pub name: String,
    /// State of the run.
    pub state: State,
    /// Why it cannot be read.
    pub problem: Option<Problem>,
    /// Whether trials run on this host now, so that watching disturbs them.
    pub is_measured_here: bool,
    /// Its plan, as soon as it is readable.
    pub plan: Option<Arc<Plan>>,
    /// The run as it was judged last, and the judgement.
    pub judged: Option<Arc<(Run, Judgement)>>,
    /// Whether the judgement covers everything in the journal.
    pub is_judged_whole: bool,
    /// Blocks at the last interim analysis.
    pub blocks: u32,
    /// All attempts in the order of their starts.
    pub attempts: Vec<Attempt>,
    /// The newest attempt of each arm, in the order of the plan.
    pub arms: Vec<ArmNow>,
    /// Remaining time, while it is running.
    pub left: Option<Left>,
    /// Entries of the journal.
    pub entries: Arc<Vec<Entry>>,
    /// Defects, each with its arm and its trial's number, in the order of the trials.
    pub defects: Vec<(String, u32, Seen)>,
    /// Time of the snapshot.
    pub at: SystemTime,
}

/// The newest attempt of an arm.
#[derive(Debug, Clone)]
pub struct ArmNow {
    /// The arm's index in the plan.
    pub place: usize,
    /// The attempt.
    pub attempt: Attempt,
    /// Its activity; `None` once it has ended, and if the run was interrupted.
    pub activity: Option<Activity>,
    /// The clients' timeline.
    pub curve: Arc<Curve>,
    /// The newest sample of the system, while it is running.
    pub sample: Option<Sample>,
}

/// The file of an attempt's defects, as far as it was read.
struct DefectFile {
    tail: Tail,
    defects: Vec<Seen>,
    /// Whether it was read after the attempt's end.
    is_complete: bool,
}

/// The other files of an attempt, as far as they were read.
struct Files {
    seconds: Tail,
    samples: Tail,
    curve: Arc<Curve>,
    sample: Option<Sample>,
    /// End of the first sample, in seconds since the window opened.
    begin_s: Option<f64>,
}

/// A watched run.
pub struct Watched {
    dir: Tree,
    callbacks: Callbacks,
    journal: Tail,
    parser: Parser,
    entries: Arc<Vec<Entry>>,
    attempts: Vec<Attempt>,
    plan: Option<Arc<Plan>>,
    files: BTreeMap<String, Files>,
    defects: BTreeMap<String, DefectFile>,
    judged: Option<Arc<(Run, Judgement)>>,
    /// Entries that affect the verdict, when it was judged last.
    judged_entries: usize,
    judge_next: Duration,
    /// Whether the last judgement has an undecided arm.
    is_open: bool,
    /// Damage of the journal, after which it is not read any further.
    damage: Option<Problem>,
    /// Why the last read failed.
    unread: Option<Problem>,
    /// Why the last judging failed.
    unjudged: Option<Problem>,
    /// Whether the directory has ever existed.
    has_existed: bool,
}

impl Watched {
    /// Watches a directory, which need not exist yet; nothing is read before the first `look`.
    pub fn new(dir: impl Into<Tree>, callbacks: Callbacks) -> Self {
        let dir = dir.into();
        Self {
            journal: Tail::new(&dir, journal::JOURNAL),
            dir,
            callbacks,
            parser: Parser::default(),
            entries: Arc::default(),
            attempts: Vec::new(),
            plan: None,
            files: BTreeMap::new(),
            defects: BTreeMap::new(),
            judged: None,
            judged_entries: 0,
            judge_next: Duration::ZERO,
            is_open: false,
            damage: None,
            unread: None,
            unjudged: None,
            has_existed: false,
        }
    }

    /// Its directory.
    pub fn dir(&self) -> &Tree {
        &self.dir
    }

    /// Reads what is new, judges it if `may_judge`, and returns the state.
    pub fn refresh(&mut self, may_judge: bool) -> Snapshot {
        let is_there = self.dir.has_dir("");
        self.has_existed |= is_there;
        if is_there {
            self.unread = self.read(may_judge).err();
        }
        self.snapshot(is_there)
    }

    /// Interval until the next `look`.
    pub fn pace(snapshot: &Snapshot) -> Duration {
        if snapshot.is_measured_here {
            MEASURED_PACE
        } else {
            PACE
        }
    }

    /// Drops the judgement, which takes most of the memory, until there is something new to judge.
    pub fn rest(&mut self) {
        self.judged = None;
    }

    /// Judges the run again at the next `look`, if the judgement was dropped.
    pub fn wake(&mut self) {
        if self.judged.is_none() {
            self.judged_entries = 0;
        }
    }

    /// The clients' timeline of an attempt, running or ended.
    pub fn curve(&self, attempt: &Attempt) -> Option<Arc<Curve>> {
        if let Some(files) = self.files.get(&attempt.place()) {
            return Some(Arc::clone(&files.curve));
        }
        if let Some(curve) = self.recorded(attempt) {
            return Some(Arc::new(curve));
        }
        let dir = self.dir.below(attempt.place());
        let seconds: Vec<Second> = crate::streamed::read(&dir, SECONDS).ok()?;
        Some(Arc::new(Curve::of(&seconds)))
    }

    fn recorded(&self, attempt: &Attempt) -> Option<Curve> {
        let (run, _) = self.judged.as_deref()?;
        let records = match attempt.series {
            Series::Judged => &run.attempts,
            Series::Profiled => &run.profiled,
        };
        let mut records = records.iter().chain(&run.invalidated);
        let record = records.find(|record| {
            record.trial.number == attempt.trial.number && record.attempt == attempt.attempt
        })?;
        match &record.outcome {
            Outcome::Measured(measured) => Some(Curve::of(&measured.load.as_ref()?.timeline)),
            Outcome::Void(_) | Outcome::Skipped(_) => None,
        }
    }

    fn read(&mut self, may_judge: bool) -> Result<(), Problem> {
        self.read_journal()?;
        self.read_plan()?;
        let is_running = self.is_running();
        self.read_attempts(is_running)?;
        if may_judge {
            self.judge(is_running);
        }
        Ok(())
    }

    fn read_journal(&mut self) -> Result<(), Problem> {
        let path = self.dir.path().join(journal::JOURNAL);
        let new = self.journal.read();
        let new = new.map_err(|why| format!("cannot read journal: {}: {why}", path.display()))?;
        if new.is_replaced {
            *self = Self {
                journal: std::mem::replace(
                    &mut self.journal,
                    Tail::new(&self.dir, journal::JOURNAL),
                ),
                has_existed: true,
                ..Self::new(&self.dir, self.callbacks)
            };
        }
        if new.lines.is_empty() || self.damage.is_some() {
            return Ok(());
        }
        let entries = Arc::make_mut(&mut self.entries);
        for line in new.lines {
            match entry(&mut self.parser, &line) {
                Ok(entry) => entries.push(entry),
                Err(why) => {
                    let line = entries.len() + 1;
                    self.damage = Some(format!(
                        "damaged journal: {} line {line}: {why}",
                        path.display()
                    ));
                    break;
                }
            }
        }
        self.attempts = attempts::of(&self.entries);
        if let Some(plan) = &mut self.plan {
            let max_blocks = plan.design.max_blocks;
            Arc::make_mut(plan).design.more_blocks = rundir::more_blocks(&self.entries, max_blocks);
        }
        Ok(())
    }

    fn read_plan(&mut self) -> Result<(), Problem> {
        let path = self.dir.path().join("plan.toml");
        if self.plan.is_some() || !self.dir.has("plan.toml") {
            return Ok(());
        }
        let check = |fields: &plan::fields::Fields<'_>| -> Option<WorkloadPlan> {
            (self.callbacks.check)(fields)
        };
        let read = plan::read_text_in(&self.dir, "plan.toml").map_err(|why| why.to_string());
        let plan = read.and_then(|text| {
            let name = path.display().to_string();
            plan::read(&name, &text, &self.dir.path(), Checks::of_the_past(&check))
                .map_err(|why| format!("{why:#}"))
        });
        let mut plan =
            plan.map_err(|why| format!("cannot read plan: {}: {why}", path.display()))?;
        plan.design.more_blocks = rundir::more_blocks(&self.entries, plan.design.max_blocks);
        self.plan = Some(Arc::new(plan));
        Ok(())
    }

    /// Reads the files of running attempts, and the defects of all attempts.
    fn read_attempts(&mut self, is_running: bool) -> Result<(), Problem> {
        let newest = newest(&self.attempts).into_iter();
        let newest: Vec<String> = newest.map(Attempt::place).collect();
        self.files.retain(|place, _| newest.contains(place));
        for attempt in &self.attempts {
            let place = attempt.place();
            let dir = self.dir.below(&place);
            let has_ended = attempt.ended.is_some();
            let cannot_read =
                |why: std::io::Error| format!("cannot read {}: {why}", dir.path().display());
            let new_file = || DefectFile::new(&dir);
            let defects = self.defects.entry(place.clone()).or_insert_with(new_file);
            if !defects.is_complete {
                defects.read().map_err(cannot_read)?;
                // Defects from the console are written when the attempt ends.
                defects.is_complete = has_ended;
            }
            if !has_ended && (is_running || !self.files.contains_key(&place)) {
                let files = self.files.entry(place).or_insert_with(|| Files::new(&dir));
                files.read().map_err(cannot_read)?;
            }
        }
        Ok(())
    }

    /// Number of entries that affect the verdict.
    fn verdict_entries(&self) -> usize {
        let entries = self.entries.iter();
        entries
            .filter(|entry| affects_verdict(&entry.event))
            .count()
    }

    /// Judges the run if its journal has new entries.
    fn judge(&mut self, is_running: bool) {
        let entries = self.verdict_entries();
        let began = (self.callbacks.clock)();
        let is_new = entries != self.judged_entries;
        if entries == 0 || !is_new || began < self.judge_next || self.is_disturbing(is_running) {
            return;
        }
        let run = rundir::load(&self.dir, &self.callbacks.check);
        let judged = run.map(|run| {
            let judgement = (self.callbacks.judge)(&run);
            Arc::new((run, judgement))
        });
        let now = (self.callbacks.clock)();
        self.judge_next = now + PAUSE_FACTOR * now.saturating_sub(began);
        match judged {
            Ok(judged) => {
                self.unjudged = None;
                let is_undecided = |headline: &Headline| {
                    matches!(headline.conclusion, Conclusion::Undecided { .. })
                };
                self.is_open = judged.1.headlines.iter().any(is_undecided);
                (self.judged, self.judged_entries) = (Some(judged), entries);
            }
            Err(why) => {
                self.judge_next = self.judge_next.max(now + RETRY_INTERVAL);
                self.unjudged = Some(format!("{why:#}"));
            }
        }
    }

    /// Whether judging now would take CPU time from a trial that is measured on this host.
    fn is_disturbing(&self, is_running: bool) -> bool {
        let has_load = |files: &Files| files.sample.is_some() || !files.curve.points().is_empty();
        let is_loaded = |attempt: &Attempt| {
            attempt.ended.is_none() && self.files.get(&attempt.place()).is_some_and(has_load)
        };
        is_running && self.is_local() && self.attempts.iter().any(is_loaded)
    }

    fn is_local(&self) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.machine.kind == MachineKind::Local)
    }

    fn is_running(&self) -> bool {
        self.close_reason().is_none() && rundir::is_running(&self.dir)
    }

    fn close_reason(&self) -> Option<&CloseReason> {
        let last = self
            .entries
            .iter()
            .rev()
            .find_map(|entry| match &entry.event {
                Event::Closed { reason } => Some(Some(reason)),
                Event::Extended { .. } => Some(None),
                _ => None,
            });
        last.flatten()
    }

    fn problem(&self) -> Option<&Problem> {
        self.damage
            .as_ref()
            .or(self.unread.as_ref())
            .or(self.unjudged.as_ref())
    }

    fn state(&self, is_there: bool) -> State {
        if !is_there {
            return if self.has_existed {
                State::Gone
            } else {
                State::NotThere
            };
        }
        match self.close_reason() {
            Some(CloseReason::NoBaseline { .. } | CloseReason::NoArm { .. }) => State::Failed,
            Some(_) if self.problem().is_some() => State::Damaged,
            Some(CloseReason::Decided { .. }) => State::Finished,
            Some(_) if self.is_open => State::Undecided,
            Some(_) => State::Finished,
            None if rundir::is_running(&self.dir) => State::Running,
            None if self.problem().is_some() => State::Damaged,
            None if !self.entries.is_empty() => State::Interrupted,
            None if rundir::is_run(&self.dir) => State::NotBegun,
            None => State::NotThere,
        }
    }

    fn snapshot(&self, is_there: bool) -> Snapshot {
        let state = self.state(is_there);
        let is_running = state == State::Running;
        let judged = |entry: &Entry| match &entry.event {
            Event::InterimAnalysis { blocks, .. } => Some(*blocks),
            _ => None,
        };
        let now = (self.callbacks.now)();
        let left = self.plan.as_ref().filter(|_| is_running).and_then(|plan| {
            left::of(plan, &self.entries, &self.attempts, &self.seen_loads(), now)
        });
        Snapshot {
            name: self
                .dir
                .path()
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            state,
            problem: self.problem().cloned(),
            is_measured_here: is_running && self.is_local(),
            plan: self.plan.clone(),
            judged: self.judged.clone(),
            is_judged_whole: self.verdict_entries() == self.judged_entries,
            blocks: self.entries.iter().rev().find_map(judged).unwrap_or(0),
            attempts: self.attempts.clone(),
            arms: self.arms(is_running),
            left,
            entries: Arc::clone(&self.entries),
            defects: self.all_defects(),
            at: now,
        }
    }

    /// Running attempts, each with its seconds of load so far.
    fn seen_loads(&self) -> Vec<left::SeenLoad> {
        let mut loads = Vec::new();
        for (index, attempt) in self.attempts.iter().enumerate() {
            if attempt.ended.is_none()
                && let Some(files) = self.files.get(&attempt.place())
            {
                let warm_up_s = files.begin_s.map_or(0.0, |begin_s| -begin_s.min(0.0));
                loads.push((index, warm_up_s + files.curve.seen_s()));
            }
        }
        loads
    }

    fn arms(&self, is_running: bool) -> Vec<ArmNow> {
        let Some(plan) = &self.plan else {
            return Vec::new();
        };
        let arm = |attempt: &Attempt| {
            let place = plan
                .arms
                .iter()
                .position(|arm| arm.name == attempt.trial.arm)?;
            let files = self.files.get(&attempt.place());
            let is_running = attempt.ended.is_none() && is_running;
            Some(ArmNow {
                place,
                activity: is_running.then(|| activity(files, window_s(plan, attempt))),
                curve: self.curve_now(attempt),
                sample: files
                    .filter(|_| is_running)
                    .and_then(|files| files.sample.clone()),
                attempt: attempt.clone(),
            })
        };
        let newest = newest(&self.attempts).into_iter();
        let mut arms: Vec<ArmNow> = newest.filter_map(arm).collect();
        arms.sort_by_key(|arm| arm.place);
        arms
    }

    /// The timeline of the newest attempt of an arm: from its record if it has one, else from its files.
    fn curve_now(&self, attempt: &Attempt) -> Arc<Curve> {
        let recorded = attempt
            .is_measured()
            .then(|| self.recorded(attempt))
            .flatten();
        match (recorded, self.files.get(&attempt.place())) {
            (Some(curve), _) => Arc::new(curve),
            (None, Some(files)) => Arc::clone(&files.curve),
            (None, None) => Arc::default(),
        }
    }

    fn all_defects(&self) -> Vec<(String, u32, Seen)> {
        let mut all = Vec::new();
        for attempt in &self.attempts {
            let (arm, number) = (&attempt.trial.arm, attempt.trial.number);
            if let Some(file) = self.defects.get(&attempt.place()) {
                let defects = file.defects.iter();
                all.extend(defects.map(|defect| (arm.clone(), number, defect.clone())));
            }
        }
        all
    }
}

impl DefectFile {
    fn new(dir: &Tree) -> Self {
        Self {
            tail: Tail::new(dir, DEFECTS),
            defects: Vec::new(),
            is_complete: false,
        }
    }

    fn read(&mut self) -> std::io::Result<()> {
        let new = self.tail.read()?;
        if new.is_replaced {
            self.defects.clear();
        }
        for line in new.lines {
            defects::take(&mut self.defects, &line);
        }
        Ok(())
    }
}

impl Files {
    fn new(dir: &Tree) -> Self {
        Self {
            seconds: Tail::new(dir, SECONDS),
            samples: Tail::new(dir, EvidenceFile::Samples.name()),
            curve: Arc::default(),
            sample: None,
            begin_s: None,
        }
    }

    /// Reads new lines. Invalid ones are ignored here; loading the run reports them.
    fn read(&mut self) -> std::io::Result<()> {
        let new = self.seconds.read()?;
        if new.is_replaced {
            self.curve = Arc::default();
        }
        for line in &new.lines {
            if let Ok(second) = serde_json::from_slice::<Second>(line) {
                Arc::make_mut(&mut self.curve).push(second);
            }
        }
        let new = self.samples.read()?;
        if let (None, Some(first)) = (self.begin_s, new.lines.first()) {
            let first = serde_json::from_slice::<Sample>(first).ok();
            self.begin_s = first.map(|first| first.at_ms as f64 / 1e3);
        }
        if let Some(last) = new.lines.last() {
            self.sample = serde_json::from_slice(last).ok();
        }
        Ok(())
    }
}

fn entry(parser: &mut Parser, line: &[u8]) -> Result<Entry, String> {
    let entry: Entry = parser.parse(line).map_err(|why| why.to_string())?;
    match &entry.event {
        Event::Opened(opening) if opening.version > journal::VERSION => Err(format!(
            "it is of a newer bakeoff, {} (use that version)",
            opening.bakeoff
        )),
        Event::Opened(Opening {
            ns_per_instruction: Some(0),
            ..
        }) => Err("ns_per_instruction 0".into()),
        _ => Ok(entry),
    }
}

/// Whether an event can change the judgement.
fn affects_verdict(event: &Event) -> bool {
    match event {
        Event::Ended { .. }
        | Event::Invalidated { .. }
        | Event::InterimAnalysis { .. }
        | Event::Ceiling { .. }
        | Event::OneFewer { .. }
        | Event::Profiled { .. }
        | Event::Extended { .. }
        | Event::Closed { .. } => true,
        Event::Opened(_)
        | Event::Resumed { .. }
        | Event::Merged { .. }
        | Event::Started { .. }
        | Event::Profiling { .. } => false,
    }
}

/// The newest attempt of each arm at the workload that runs or ran last, so that arms are shown at the same work.
fn newest(attempts: &[Attempt]) -> Vec<&Attempt> {
    let mut newest: Vec<&Attempt> = Vec::new();
    for attempt in attempts.iter().rev() {
        let is_same_workload = newest
            .first()
            .is_none_or(|last| last.trial.workload == attempt.trial.workload);
        let is_known = newest.iter().any(|n| n.trial.arm == attempt.trial.arm);
        if is_same_workload && !is_known {
            newest.push(attempt);
        }
    }
    newest
}

/// Length of a trial's window in the plan, in seconds; `None` if a program runs to its end.
fn window_s(plan: &Plan, attempt: &Attempt) -> Option<f64> {
    let workload = plan
        .workloads
        .iter()
        .find(|workload| workload.id == attempt.trial.workload)?;
    let window_ns = workload.options["window_ns"].as_u64()?;
    Some(window_ns as f64 / 1e9)
}

fn activity(files: Option<&Files>, of_s: Option<f64>) -> Activity {
    let Some(files) = files else {
        return Activity::Starting;
    };
    let sampled_s = files
        .sample
        .as_ref()
        .map(|sample| sample.at_ms as f64 / 1e3);
    let second = files.curve.seen_s().max(sampled_s.unwrap_or(0.0));
    match (sampled_s, of_s) {
        (_, Some(of_s)) if second >= of_s => Activity::Ending,
        _ if second > 0.0 => Activity::Measuring { second, of_s },
        (Some(_), _) => Activity::WarmingUp,
        (None, _) => Activity::Starting,
    }
}
