//! One run: what its directory says now, and what is judged of it.

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
    Activity, Attempt, Curve, Eyes, Left, MEASURED_PACE, PACE, Seen, attempts, defects, left,
};

/// Judging takes at most one part in so many of the time.
const JUDGING_SHARE: u32 = 20;

/// What cannot be loaded is tried again after so long, if nothing has changed.
const AGAIN: Duration = Duration::from_secs(30);

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum State {
    /// There is no such directory yet, or nothing in it.
    #[strum(serialize = "not there yet")]
    NotThere,
    /// It has a plan and nothing else.
    #[strum(serialize = "not begun")]
    NotBegun,
    /// A bakeoff is at it.
    Running,
    /// It is not over, and can be gone on with.
    Interrupted,
    /// It is over, and all arms are decided.
    Finished,
    /// It is over, and an arm is not decided.
    Undecided,
    /// It is over because an arm gave no figures.
    Failed,
    /// It cannot be read.
    Damaged,
    /// It was there, and is not any more.
    Gone,
}

impl State {
    /// The state in a word or two.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Whether it is over, so that nothing will change by itself.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Undecided | Self::Failed)
    }
}

/// What keeps a directory from being read, with its place.
pub type Problem = String;

/// What a directory says.
#[derive(Clone)]
pub struct Snapshot {
    /// The directory's name.
    pub name: String,
    /// How the run stands.
    pub state: State,
    /// What cannot be read of it.
    pub problem: Option<Problem>,
    /// Whether trials run on this very host now, so that watching disturbs them.
    pub is_measured_here: bool,
    /// Its plan, as soon as that can be read.
    pub plan: Option<Arc<Plan>>,
    /// The run as far as it is judged, and the verdict so far.
    pub judged: Option<Arc<(Run, Judgement)>>,
    /// Whether what is judged is all that the journal has.
    pub is_judged_whole: bool,
    /// Blocks that were looked at.
    pub blocks: u32,
    /// All attempts in the order in which they began.
    pub attempts: Vec<Attempt>,
    /// For each arm that was tried, its newest attempt, in the order of the plan.
    pub arms: Vec<ArmNow>,
    /// Time left, while it goes on.
    pub left: Option<Left>,
    /// The journal.
    pub entries: Arc<Vec<Entry>>,
    /// Defects, each with its arm and the number of its trial, in the order of the trials.
    pub defects: Vec<(String, u32, Seen)>,
    /// When it was looked at.
    pub at: SystemTime,
}

/// The newest attempt of an arm.
#[derive(Debug, Clone)]
pub struct ArmNow {
    /// The arm's place in the plan.
    pub place: usize,
    /// Which attempt.
    pub attempt: Attempt,
    /// What it does; `None` once it has ended, or where nobody runs it.
    pub activity: Option<Activity>,
    /// What its clients saw.
    pub curve: Arc<Curve>,
    /// The system's last second, while it is under way.
    pub sample: Option<Sample>,
}

/// What an attempt has told of defects, as far as that is read.
struct Told {
    tail: Tail,
    seen: Vec<Seen>,
    /// Whether it was read after its end.
    is_whole: bool,
}

/// The files of an attempt, as far as they are read.
struct Files {
    seconds: Tail,
    samples: Tail,
    curve: Arc<Curve>,
    sample: Option<Sample>,
    /// When the first sample ended, in seconds since the window opened.
    begin_s: Option<f64>,
}

/// A run that is watched.
pub struct Watched {
    dir: Tree,
    eyes: Eyes,
    journal: Tail,
    parser: Parser,
    entries: Arc<Vec<Entry>>,
    attempts: Vec<Attempt>,
    plan: Option<Arc<Plan>>,
    files: BTreeMap<String, Files>,
    defects: BTreeMap<String, Told>,
    judged: Option<Arc<(Run, Judgement)>>,
    /// Figures in the journal when it was judged or tried last.
    judged_figures: usize,
    judge_next: Duration,
    /// Whether an arm was undecided then.
    is_open: bool,
    /// What is wrong with the journal: nothing after it is read.
    damage: Option<Problem>,
    /// What could not be read at the last look.
    unread: Option<Problem>,
    /// Why it could not be judged when that was tried last.
    unjudged: Option<Problem>,
    was_there: bool,
}

impl Watched {
    /// A run directory that need not be there yet; nothing is read before the first look.
    pub fn new(dir: impl Into<Tree>, eyes: Eyes) -> Self {
        let dir = dir.into();
        Self {
            journal: Tail::new(&dir, journal::JOURNAL),
            dir,
            eyes,
            parser: Parser::default(),
            entries: Arc::default(),
            attempts: Vec::new(),
            plan: None,
            files: BTreeMap::new(),
            defects: BTreeMap::new(),
            judged: None,
            judged_figures: 0,
            judge_next: Duration::ZERO,
            is_open: false,
            damage: None,
            unread: None,
            unjudged: None,
            was_there: false,
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Tree {
        &self.dir
    }

    /// Reads what has come, judges it if it may, and says how things stand.
    pub fn look(&mut self, may_judge: bool) -> Snapshot {
        let is_there = self.dir.has_dir("");
        self.was_there |= is_there;
        if is_there {
            self.unread = self.read(may_judge).err();
        }
        self.snapshot(is_there)
    }

    /// How long to wait before the next look.
    pub fn pace(snapshot: &Snapshot) -> Duration {
        if snapshot.is_measured_here {
            MEASURED_PACE
        } else {
            PACE
        }
    }

    /// Forgets what is judged, which takes most of the memory. It is judged again when there is more to judge.
    pub fn rest(&mut self) {
        self.judged = None;
    }

    /// What was forgotten is wanted again.
    pub fn wake(&mut self) {
        if self.judged.is_none() {
            self.judged_figures = 0;
        }
    }

    /// What the clients of an attempt saw, one that ended or one under way.
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
        let same = |number: u32, of: u32| (number, of) == (attempt.trial.number, attempt.attempt);
        let mut records = records.iter().chain(&run.struck);
        let record = records.find(|one| same(one.trial.number, one.attempt))?;
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
        let news = self.journal.read();
        let news = news.map_err(|why| format!("cannot read journal: {}: {why}", path.display()))?;
        if news.is_anew {
            *self = Self {
                journal: std::mem::replace(
                    &mut self.journal,
                    Tail::new(&self.dir, journal::JOURNAL),
                ),
                was_there: true,
                ..Self::new(&self.dir, self.eyes)
            };
        }
        if news.lines.is_empty() || self.damage.is_some() {
            return Ok(());
        }
        let entries = Arc::make_mut(&mut self.entries);
        for line in news.lines {
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
            (self.eyes.check)(fields)
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

    /// Reads what attempts have told since: those under way as they go, defects of all once.
    fn read_attempts(&mut self, is_running: bool) -> Result<(), Problem> {
        let newest: Vec<String> = newest(&self.attempts).map(Attempt::place).collect();
        self.files.retain(|place, _| newest.contains(place));
        for attempt in &self.attempts {
            let place = attempt.place();
            let is_under_way = attempt.ended.is_none();
            let told = |why: std::io::Error| {
                format!(
                    "cannot read {}: {why}",
                    self.dir.path().join(&place).display()
                )
            };
            let new = || Told::new(&self.dir.below(&place));
            let known = self.defects.entry(place.clone()).or_insert_with(new);
            if !known.is_whole {
                known.read().map_err(told)?;
                // What its console tells of an attempt is written as it ends.
                known.is_whole = !is_under_way;
            }
            if is_under_way && (is_running || !self.files.contains_key(&place)) {
                let dir = self.dir.below(&place);
                let files = self
                    .files
                    .entry(place.clone())
                    .or_insert_with(|| Files::new(&dir));
                files.read().map_err(told)?;
            }
        }
        Ok(())
    }

    /// Judges what the journal has, if that is more than before.
    fn judge(&mut self, is_running: bool) {
        let figures = self
            .entries
            .iter()
            .filter(|entry| bears_on_verdict(&entry.event))
            .count();
        let began = (self.eyes.clock)();
        let is_new = figures != self.judged_figures;
        if figures == 0 || !is_new || began < self.judge_next || self.is_disturbing(is_running) {
            return;
        }
        let run = rundir::load(&self.dir, &self.eyes.check);
        let judged = run.map(|run| {
            let judgement = (self.eyes.look)(&run);
            Arc::new((run, judgement))
        });
        let now = (self.eyes.clock)();
        self.judge_next = now + JUDGING_SHARE * now.saturating_sub(began);
        match judged {
            Ok(judged) => {
                self.unjudged = None;
                let is_open =
                    |one: &Headline| matches!(one.conclusion, Conclusion::Undecided { .. });
                self.is_open = judged.1.headlines.iter().any(is_open);
                (self.judged, self.judged_figures) = (Some(judged), figures);
            }
            Err(why) => {
                self.judge_next = self.judge_next.max(now + AGAIN);
                self.unjudged = Some(format!("{why:#}"));
            }
        }
    }

    /// Whether judging now would take CPU time from a trial that is measured on this host.
    fn is_disturbing(&self, is_running: bool) -> bool {
        let is_loaded = |files: &Files| files.sample.is_some() || !files.curve.points().is_empty();
        let is_under_way = self
            .attempts
            .iter()
            .any(|one| one.ended.is_none() && self.files.get(&one.place()).is_some_and(is_loaded));
        is_running && self.is_local() && is_under_way
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
            return if self.was_there {
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
        let looked = |entry: &Entry| match &entry.event {
            Event::Looked { blocks, .. } => Some(*blocks),
            _ => None,
        };
        let now = (self.eyes.now)();
        let left = self.plan.as_ref().filter(|_| is_running).and_then(|plan| {
            left::of(plan, &self.entries, &self.attempts, &self.seen_loads(), now)
        });
        let figures = self
            .entries
            .iter()
            .filter(|entry| bears_on_verdict(&entry.event))
            .count();
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
            is_judged_whole: figures == self.judged_figures,
            blocks: self.entries.iter().rev().find_map(looked).unwrap_or(0),
            attempts: self.attempts.clone(),
            arms: self.arms(is_running),
            left,
            entries: Arc::clone(&self.entries),
            defects: self.all_defects(),
            at: now,
        }
    }

    /// Attempts under way, each with the seconds of load that were seen of it.
    fn seen_loads(&self) -> Vec<left::SeenLoad> {
        let loads = self
            .attempts
            .iter()
            .enumerate()
            .filter_map(|(index, attempt)| {
                let files = self
                    .files
                    .get(&attempt.place())
                    .filter(|_| attempt.ended.is_none())?;
                let warm_s = files.begin_s.map_or(0.0, |begin_s| -begin_s.min(0.0));
                Some((index, warm_s + files.curve.seen_s()))
            });
        loads.collect()
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
            let is_under_way = attempt.ended.is_none() && is_running;
            Some(ArmNow {
                place,
                activity: is_under_way.then(|| activity(files, window_s(plan, attempt))),
                curve: self.curve_now(attempt),
                sample: files
                    .filter(|_| is_under_way)
                    .and_then(|files| files.sample.clone()),
                attempt: attempt.clone(),
            })
        };
        let mut arms: Vec<ArmNow> = newest(&self.attempts).filter_map(arm).collect();
        arms.sort_by_key(|arm| arm.place);
        arms
    }

    /// The curve of the newest attempt of an arm: from its record if it has one, else what was seen of it.
    fn curve_now(&self, attempt: &Attempt) -> Arc<Curve> {
        let recorded = attempt
            .is_measured()
            .then(|| self.recorded(attempt))
            .flatten();
        let seen = self.files.get(&attempt.place());
        match (recorded, seen) {
            (Some(curve), _) => Arc::new(curve),
            (None, Some(files)) => Arc::clone(&files.curve),
            (None, None) => Arc::default(),
        }
    }

    fn all_defects(&self) -> Vec<(String, u32, Seen)> {
        let mut all = Vec::new();
        for attempt in &self.attempts {
            let (arm, number) = (&attempt.trial.arm, attempt.trial.number);
            let seen = self.defects.get(&attempt.place());
            let seen = seen.into_iter().flat_map(|told| &told.seen);
            all.extend(seen.map(|one| (arm.clone(), number, one.clone())));
        }
        all
    }
}

impl Told {
    fn new(dir: &Tree) -> Self {
        Self {
            tail: Tail::new(dir, DEFECTS),
            seen: Vec::new(),
            is_whole: false,
        }
    }

    fn read(&mut self) -> std::io::Result<()> {
        let news = self.tail.read()?;
        if news.is_anew {
            self.seen.clear();
        }
        for line in news.lines {
            defects::take(&mut self.seen, &line);
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

    /// A line that is no second or no sample is passed over: the record will say what is wrong.
    fn read(&mut self) -> std::io::Result<()> {
        let news = self.seconds.read()?;
        if news.is_anew {
            self.curve = Arc::default();
        }
        for line in &news.lines {
            if let Ok(second) = serde_json::from_slice::<Second>(line) {
                Arc::make_mut(&mut self.curve).push(second);
            }
        }
        let news = self.samples.read()?;
        if let (None, Some(first)) = (self.begin_s, news.lines.first()) {
            let first = serde_json::from_slice::<Sample>(first).ok();
            self.begin_s = first.map(|first| first.at_ms as f64 / 1e3);
        }
        if let Some(last) = news.lines.last() {
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

/// Whether what is said of the run may change with it.
fn bears_on_verdict(event: &Event) -> bool {
    match event {
        Event::Ended { .. }
        | Event::Invalidated { .. }
        | Event::Looked { .. }
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

/// The newest attempt of each arm: of the workload that was tried last, so that arms stand beside each other with like work.
fn newest(attempts: &[Attempt]) -> impl Iterator<Item = &Attempt> {
    let last = attempts.last();
    let of_workload =
        move |one: &&Attempt| last.is_some_and(|last| last.trial.workload == one.trial.workload);
    let mut seen: Vec<&str> = Vec::new();
    let all: Vec<&Attempt> = attempts
        .iter()
        .rev()
        .filter(of_workload)
        .filter(|one| {
            let is_new = !seen.contains(&&*one.trial.arm);
            seen.push(&one.trial.arm);
            is_new
        })
        .collect();
    all.into_iter()
}

/// Seconds that a trial's window has by its plan; `None` where a program runs to its end.
fn window_s(plan: &Plan, attempt: &Attempt) -> Option<f64> {
    let workload = plan
        .workloads
        .iter()
        .find(|one| one.id == attempt.trial.workload)?;
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
