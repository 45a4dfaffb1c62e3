//! The lab: plan -> trials -> journal. Only this room appends to the journal.
//!
//! ```text
//! what the clients get from a null server, where there is one                `ceiling`
//! for each block, for each workload that is not decided, for each arm in the block's order:
//!     boot, run, record             `attempt`: once more if it gave no figure
//!     something outside disturbed it: the whole block again, in a new order
//! then look: decide on all blocks so far, tell what is not fair, stop when every workload is decided
//! then, where profiles are sampled, for each block: boot, run, record once more, for the profile alone    `profiled`
//! then, for systems on the network, each arm once more with one client fewer, unjudged    `one_fewer`
//! ```
//! Where the host's load is no part of the figures, several attempts run at a time, each on a thread of its own:
//! they begin in that order, and blocks are looked at in theirs.
//!
//! A look judges the primary metrics of all blocks so far. It reads no file: of each trial that ends, the lab keeps what looks need
//! (`for_looks`). Violations of fairness are looked for in the last blocks (`RECENT`).
//!
//! A run that was interrupted is the same loop over a journal that is not empty: trials that have
//! ended are passed over, everything else follows from the plan's seed.

mod attempt;
mod ceiling;
mod charging;
pub mod extend;
pub mod fleet;
mod guest_cpu;
mod one_fewer;
mod profiled;
pub mod repeat;
mod run_state;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};

use anyhow::{Result, bail};
use machine::clock::Clock;
use machine::guest::Machine;
use plan::{Design, Plan, WorkloadPlan};
use record::defect::FoundDefect;
use record::journal::CloseReason;
use record::journal::{Ending, Entry, Event, Journal, Opening};
use record::load::Tick;
use record::protocol::Greeting;
use record::rundir;
use record::rundir::{Run, RunDir, Series, TRIAL_VERSION, TrialRecord};
use record::trial::{Outcome, Trial};
use record::verdict::fairness::{CheckResult, Outcome as Found};
use record::verdict::look::{Look, MetricLook, Remaining};
use record::verdict::{Comparison, Verdict};

use attempt::{Attempted, Bench, Purpose};
use extend::Extension;
use run_state::RunState;

/// Attempts at one trial: emulators fail now and then, so one more is tried.
const ATTEMPTS: u32 = 2;

/// A block that was disturbed is run again so often; then it counts as it is.
const REDOS: u32 = 3;

/// An arm that gave no figure in so many trials in a row is not booted again.
const PATIENCE: u32 = 3;

/// Checks of fairness have so many blocks while a run goes on, the last ones: facts of a real guest's trial are 230 kB. Its verdict has them all.
const RECENT: u32 = 50;

/// Where there are more, after each so many of them.
const BETWEEN_CHECKS: u32 = 10;

/// All that a run stands on. Time, machine and seed are parameters, so that a fake lab can run it.
pub struct Lab<'l> {
    /// The experiment.
    pub plan: &'l Plan,
    /// Where it is recorded.
    pub dir: &'l RunDir,
    /// Where arms boot.
    pub machine: &'l dyn Machine,
    /// Host time.
    pub clock: &'l dyn Clock,
    /// Who we are, for the agent.
    pub greeting: &'l Greeting,
    /// Set when the user wants to stop.
    pub interrupted: &'l AtomicBool,
    /// Attempts that may run at a time, 1 at the least.
    pub jobs: usize,
    /// More blocks for a run that has ended undecided.
    pub extension: Option<Extension>,
    /// Whether ceilings that were measured before are measured again.
    pub remeasures_ceilings: bool,
    /// Told of everything, after it is on disk.
    pub show: &'l dyn Fn(LabEvent<'_>),
}

/// What is shown live.
#[derive(Debug, Clone, Copy)]
pub enum LabEvent<'n> {
    /// All entries of earlier sessions of the run, before anything else.
    Before(&'n [Entry]),
    /// An entry of the journal that was written now.
    Entry(&'n Entry),
    /// The record of the attempt whose `Ended` entry comes next.
    Record(&'n TrialRecord),
    /// Something activity within a trial.
    Activity(&'n Trial, &'n Activity),
    /// Checks of fairness are violated that were not told before: after so many blocks, or, 0, by the plan; and after how many blocks
    /// the first test comes.
    Violated((u32, u32), &'n [CheckResult]),
}

/// Something activity: shown, never recorded in the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// Waiting for the agent's first word.
    Booting,
    /// The agent's phase.
    Phase(record::trial::Phase),
    /// A second of load has passed.
    Tick(Tick),
    /// Its kernel or a service told of a defect for the first time.
    Defect(Box<FoundDefect>),
    /// Its figures are not wanted any more: its workload was decided meanwhile.
    Cancelled,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Every workload is decided, or the plan's blocks are used up.
    Complete,
    /// The user stopped it; it can be resumed.
    Interrupted,
}

/// The journal, and what it says so far.
struct Book {
    journal: Journal,
    run_state: RunState,
    /// The same of trials that are run for their profile alone.
    profiled: RunState,
    entries: Vec<Entry>,
    /// The attempts that have ended, as far as looks need them.
    records: Vec<TrialRecord>,
}

impl Book {
    /// Keeps what looks need of an attempt that has ended.
    fn keep(&mut self, record: &TrialRecord) {
        self.records.push(for_looks(record));
    }

    /// The run so far, as far as looks need it.
    fn run(&self, plan: &Plan) -> Run {
        let Some(Event::Opened(opening)) = self.entries.first().map(|entry| &entry.event) else {
            panic!("the first entry of a journal opens it");
        };
        Run::in_progress(plan, opening, &self.entries, &self.records)
    }
}

/// A record without histograms and series, which are megabytes for an hour of load.
fn for_looks(record: &TrialRecord) -> TrialRecord {
    let mut record = record.clone();
    record.host_time = Vec::new();
    record.defects = None;
    if let Outcome::Measured(measurement) = &mut record.outcome {
        measurement.curves = Vec::new();
        measurement.load = None;
        measurement.path = None;
        measurement.disturbances = Vec::new();
    }
    record
}

/// Runs the plan, or goes on where an interrupted run stopped.
pub fn run(lab: &Lab<'_>, opening: Opening) -> Result<Finish> {
    let (mut book, entries) = lab.open_book()?;
    if book.run_state.is_closed() && lab.extension.is_none() {
        return lab.measure_ceilings_again(&mut book, &opening, &entries);
    }
    lab.take_up(&mut book, &entries)?;
    match (book.run_state.opening(), &lab.extension) {
        (None, _) => lab.note(&mut book, Event::Opened(opening))?,
        (Some(before), None) => {
            refuse_changes(before, &opening)?;
            let bakeoff = opening.bakeoff;
            lab.note(&mut book, Event::Resumed { bakeoff })?;
        }
        (Some(before), Some(extension)) => {
            refuse_changes(before, &opening)?;
            lab.note(&mut book, extension.event(opening.bakeoff))?;
            book.run_state.extend(extension.to);
        }
    }
    if !lab.measure_ceilings(&mut book, &entries)? {
        return Ok(Finish::Interrupted);
    }
    match lab.run_blocks(book)? {
        (mut book, Some(reason)) => {
            if !lab.run_profiled(&mut book)? || !lab.run_one_fewer(&mut book)? {
                return Ok(Finish::Interrupted);
            }
            lab.note(&mut book, Event::Closed { reason })?;
            Ok(Finish::Complete)
        }
        (_, None) => Ok(Finish::Interrupted),
    }
}

/// A run that goes on must stand on what it began with.
fn refuse_changes(before: &Opening, now: &Opening) -> Result<()> {
    let mut changes = changed_inputs(before, now);
    if before.machine != now.machine {
        let [was, is] = [&before.machine, &now.machine].map(judge::report::machine);
        changes.push(format!("machine was {was}, is {is}"));
    }
    if changes.is_empty() {
        return Ok(());
    }
    bail!(
        "cannot go on with this run, something changed since it began: {} \
         (put it back, or begin a new run with --out DIR)",
        changes.join("; ")
    )
}

/// What of the content that a run stands on is not the same.
fn changed_inputs(before: &Opening, now: &Opening) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, sha) in &before.inputs {
        match now.inputs.get(name) {
            Some(same) if same == sha => {}
            Some(other) => changes.push(format!("{name} was {sha:.12}, is {other:.12}")),
            None => changes.push(format!("{name} is gone")),
        }
    }
    let is_new = |name: &&String| !before.inputs.contains_key(*name);
    let added = now.inputs.keys().filter(is_new);
    changes.extend(added.map(|name| format!("{name} is new")));
    changes
}

/// An attempt that runs on a thread of its own.
struct Running {
    trial: Trial,
    attempt: u32,
    /// Set when its figures are not wanted any more.
    cancelled: Arc<AtomicBool>,
}

/// What the thread of an attempt tells the lab.
enum Report {
    Activity(Activity),
    Ended(Result<Option<Box<Attempted>>>),
}

/// Both ends of the line between the lab and the threads of its attempts: a trial's number, and what it reports.
struct Line {
    say: Sender<(u32, Report)>,
    hear: Receiver<(u32, Report)>,
}

/// How far the run is.
struct Progress<'p> {
    book: Book,
    /// The block that is looked at next.
    block: u32,
    /// The workloads that run it.
    open: Vec<&'p WorkloadPlan>,
    /// Those of them whose trials have not all ended.
    incomplete: Vec<&'p WorkloadPlan>,
    /// Whether that block is the only one that is run here: it is looked at elsewhere.
    is_alone: bool,
    running: Vec<Running>,
    /// Checks whose violation was told.
    told: BTreeSet<String>,
}

impl Progress<'_> {
    /// Ends the attempts of these trials without a record.
    fn cancel(&mut self, unwanted: impl Fn(&Trial) -> bool) -> Vec<Trial> {
        let gone = self.running.extract_if(.., |one| unwanted(&one.trial));
        let cancel = |one: Running| {
            one.cancelled.store(true, Ordering::Relaxed);
            one.trial
        };
        gone.map(cancel).collect()
    }
}

/// An attempt that may begin.
struct Next<'p> {
    workload: &'p WorkloadPlan,
    trial: Trial,
    attempt: u32,
}

impl<'l> Lab<'l> {
    /// Opens the journal and shows what it says so far.
    fn open_book(&self) -> Result<(Book, Vec<Entry>)> {
        let (journal, entries) = Journal::open(self.dir.tree())?;
        let book = Book {
            journal,
            run_state: RunState::of(&entries),
            profiled: RunState::of_profiled(&entries),
            entries: entries.clone(),
            records: Vec::new(),
        };
        (self.show)(LabEvent::Before(&entries));
        Ok((book, entries))
    }

    /// Reads the trials that an earlier session has ended.
    fn take_up(&self, book: &mut Book, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            if let Event::Ended {
                trial,
                attempt,
                record,
                ..
            } = &entry.event
            {
                let record = rundir::load_attempt(self.dir.path(), trial, *attempt, record)?;
                book.keep(&record);
            }
        }
        Ok(())
    }

    /// Runs blocks until all is decided; `None` when interrupted, else why it ended.
    ///
    /// Attempts begin in the order of the schedule, `jobs` at a time. While the last ones of a block run, those of the
    /// next block begin: they are recorded, but judged only when their block's turn comes.
    fn run_blocks(&self, book: Book) -> Result<(Book, Option<CloseReason>)> {
        let looked = book.run_state.looked();
        let open = self.undecided(&self.compare(&book, looked));
        let mut progress = Progress {
            book,
            block: looked + 1,
            incomplete: open.clone(),
            open,
            is_alone: false,
            running: Vec::new(),
            told: BTreeSet::new(),
        };
        self.tell_violations(&mut progress.told, looked)?;
        if let Some(why) = self.obstacle(&progress) {
            return Ok((progress.book, Some(why)));
        }
        let end = self.run_to_end(&mut progress)?;
        Ok((progress.book, end))
    }

    /// Runs what is left; `None` when interrupted, else why it ended.
    fn run_to_end(&self, progress: &mut Progress<'l>) -> Result<Option<CloseReason>> {
        let (say, hear) = mpsc::channel();
        let line = Line { say, hear };
        thread::scope(|scope| {
            let end = self.run_attempts(progress, scope, &line);
            // A scope waits for its threads, and an error has left some of them running.
            progress.cancel(|_| true);
            end
        })
    }

    fn run_attempts<'s>(
        &self,
        progress: &mut Progress<'l>,
        scope: &'s Scope<'s, '_>,
        line: &Line,
    ) -> Result<Option<CloseReason>>
    where
        'l: 's,
    {
        loop {
            if let Some(end) = self.end_blocks(progress)? {
                return Ok(Some(end));
            }
            while progress.running.len() < self.jobs && !self.interrupted.load(Ordering::Relaxed) {
                let Some(next) = self.next_attempt(progress) else {
                    break;
                };
                self.begin(progress, next, (scope, &line.say))?;
            }
            if progress.running.is_empty() {
                if self.interrupted.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                // All that could begin was skipped.
                continue;
            }
            self.hear(progress, line)?;
        }
    }

    /// Looks at every block that is complete; why the run is over, if it is.
    fn end_blocks(&self, progress: &mut Progress<'l>) -> Result<Option<CloseReason>> {
        loop {
            let block = progress.block;
            while let Some(workload) = progress.incomplete.first() {
                if !self.is_complete(&mut progress.book, workload, block)? {
                    return Ok(None);
                }
                progress.incomplete.remove(0);
            }
            if progress.is_alone {
                return Ok(Some(CloseReason::OneBlock { block }));
            }
            self.look(progress)?;
            if let Some(why) = self.obstacle(progress) {
                self.cancel(progress, |_| true);
                return Ok(Some(why));
            }
            let wanted: Vec<&str> = progress.open.iter().map(|one| one.id.as_str()).collect();
            self.cancel(progress, |trial| !wanted.contains(&trial.workload.as_str()));
        }
    }

    /// Looks at all blocks up to the present one, which is complete; the next one is then the present one.
    fn look(&self, progress: &mut Progress<'l>) -> Result<()> {
        let block = progress.block;
        let primaries = self.compare(&progress.book, block);
        let open = self.undecided(&primaries);
        let event = Event::Looked {
            blocks: block,
            looks: looks(&primaries, &self.design(&progress.book.run_state)),
            undecided: open.iter().map(|workload| workload.id.clone()).collect(),
        };
        self.note(&mut progress.book, event)?;
        progress.book.run_state.look(block);
        if block <= RECENT || block.is_multiple_of(BETWEEN_CHECKS) {
            self.tell_violations(&mut progress.told, block)?;
        }
        // What fails alike on all arms does so from the first block on.
        if block <= RECENT {
            repeat::refuse(&self.load_recent(block)?)?;
        }
        progress.block = block + 1;
        progress.incomplete.clone_from(&open);
        progress.open = open;
        Ok(())
    }

    /// Tells of violations while a night can still be saved: by the plan before the first block, all after it, and later
    /// those that are new. At the first test it tells again what trials showed before, and still show.
    fn tell_violations(&self, told: &mut BTreeSet<String>, blocks: u32) -> Result<()> {
        let min_blocks = self.plan.design.min_blocks;
        if blocks == min_blocks {
            told.retain(|id| judge::topics::fairness::is_of_plan(id));
        }
        let recent = self.load_recent(blocks)?;
        let found = match blocks {
            0 => judge::topics::fairness::accept(
                judge::topics::fairness::of_plan(self.plan),
                &recent.accepted,
            ),
            _ => judge::quick_look(&recent).fairness,
        };
        let is_new = |one: &CheckResult| {
            let is_violation = matches!(one.outcome, Found::Violation { .. });
            is_violation && !told.contains(&one.id)
        };
        let new: Vec<CheckResult> = found.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        (self.show)(LabEvent::Violated((blocks, min_blocks), &new));
        // What a plan lets foresee is told again once it was found.
        if blocks > 0 {
            told.extend(new.into_iter().map(|one| one.id));
        }
        Ok(())
    }

    fn cancel(&self, progress: &mut Progress<'l>, unwanted: impl Fn(&Trial) -> bool) {
        for trial in progress.cancel(unwanted) {
            (self.show)(LabEvent::Activity(&trial, &Activity::Cancelled));
        }
    }

    /// Why the next block is not run.
    fn obstacle(&self, progress: &Progress<'_>) -> Option<CloseReason> {
        let given = progress.book.run_state.most();
        let most = given.unwrap_or(self.plan.design.max_blocks);
        let before = progress.block - 1;
        match (progress.open.is_empty(), before < most) {
            (true, _) => Some(CloseReason::Decided { blocks: before }),
            (false, false) if given.is_some() => Some(CloseReason::BlocksGiven { blocks: most }),
            (false, false) => Some(CloseReason::BlocksOfPlan { blocks: most }),
            (false, true) => self.hopeless(&progress.book.run_state),
        }
    }

    /// The plan's design, with the blocks that the run was given later.
    fn design(&self, run_state: &RunState) -> Design {
        let design = &self.plan.design;
        let most = run_state.most().unwrap_or(design.max_blocks);
        Design {
            more_blocks: most.saturating_sub(design.max_blocks),
            ..design.clone()
        }
    }

    fn undecided(&self, primaries: &[Comparison]) -> Vec<&'l WorkloadPlan> {
        let open = |workload: &&WorkloadPlan| !judge::is_decided(primaries, &workload.id);
        self.plan.workloads.iter().filter(open).collect()
    }

    /// Why no block can be completed any more.
    fn hopeless(&self, run_state: &RunState) -> Option<CloseReason> {
        let alive = |arm: &str| run_state.misses_in_a_row(arm) < PATIENCE;
        let (baseline, others) = self
            .plan
            .arms
            .split_first()
            .expect("plan is validated: two arms");
        if !alive(&baseline.name) {
            return Some(CloseReason::NoBaseline { trials: PATIENCE });
        }
        let none = !others.iter().any(|arm| alive(&arm.name));
        none.then_some(CloseReason::NoArm { trials: PATIENCE })
    }

    /// Whether all trials of one block of one workload have ended. A block that something outside disturbed is struck:
    /// it has trials to run again.
    fn is_complete(&self, book: &mut Book, workload: &WorkloadPlan, block: u32) -> Result<bool> {
        let id = &workload.id;
        if self.next_of_block(book, workload, block, &[]).is_some() {
            return Ok(false);
        }
        let of_block = book.run_state.of_block(id, block);
        let trials: Vec<u32> = of_block.map(|trial| trial.number).collect();
        // Where several trials run at a time, some of the next block may have ended.
        let run = book.run(self.plan).within(block);
        let disturbance = judge::disturbance(&run, id, &trials);
        let Some(disturbance) = disturbance.filter(|_| book.run_state.redos(id, block) < REDOS)
        else {
            return Ok(true);
        };
        book.run_state.strike(id, block, &trials);
        let event = Event::Invalidated {
            workload: id.clone(),
            block,
            trials,
            disturbance,
        };
        self.note(book, event)?;
        Ok(false)
    }

    /// The attempt that begins next: of the block that is looked at next, or of the one after it.
    fn next_attempt(&self, progress: &mut Progress<'l>) -> Option<Next<'l>> {
        let busy: Vec<u32> = progress
            .running
            .iter()
            .map(|one| one.trial.number)
            .collect();
        let given = progress.book.run_state.most();
        let most = given.unwrap_or(self.plan.design.max_blocks);
        let ahead = u32::from(!progress.is_alone);
        let blocks = progress.block..=most.min(progress.block + ahead);
        let mut places =
            blocks.flat_map(|block| progress.open.iter().map(move |one| (block, *one)));
        let book = &mut progress.book;
        places.find_map(|(block, workload)| self.next_of_block(book, workload, block, &busy))
    }

    /// The next attempt of one block of one workload, other than those of the `busy` trials.
    fn next_of_block(
        &self,
        book: &mut Book,
        workload: &'l WorkloadPlan,
        block: u32,
        busy: &[u32],
    ) -> Option<Next<'l>> {
        let order = judge::order(self.plan, &workload.id, block);
        order.into_iter().zip(1..).find_map(|(arm, slot)| {
            let trial = book.run_state.trial(&workload.id, block, slot, &arm);
            let attempt = book.run_state.next_attempt(&trial, ATTEMPTS)?;
            (!busy.contains(&trial.number)).then_some(Next {
                workload,
                trial,
                attempt,
            })
        })
    }

    /// Begins an attempt on a thread of its own, or notes that it is skipped.
    fn begin<'s>(
        &self,
        progress: &mut Progress<'l>,
        next: Next<'l>,
        (scope, say): (&'s Scope<'s, '_>, &Sender<(u32, Report)>),
    ) -> Result<()>
    where
        'l: 's,
    {
        let Next {
            workload,
            trial,
            attempt,
        } = next;
        let book = &mut progress.book;
        let event = Event::Started {
            trial: trial.clone(),
            attempt,
        };
        self.note(book, event)?;
        let misses = book.run_state.misses_in_a_row(&trial.arm);
        let dir = self.dir.trial_dir(Series::Judged, &trial, attempt)?;
        if attempt == 1 && misses >= PATIENCE {
            let arm = &trial.arm;
            let why = format!("arm {arm} gave no figure in {misses} trials in a row");
            let skipped = Attempted::skipped(why);
            self.record(book, Series::Judged, (&trial, attempt), skipped)?;
            return Ok(());
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        progress.running.push(Running {
            trial: trial.clone(),
            attempt,
            cancelled: Arc::clone(&cancelled),
        });
        let bench = self.bench(Series::Judged, cancelled);
        let say = say.clone();
        scope.spawn(move || {
            // The lab hears nothing more once it cancelled the attempt.
            let tell = |report| drop(say.send((trial.number, report)));
            let activity = |activity| tell(Report::Activity(activity));
            let end = attempt::run(&bench, (workload, &trial), &dir, &activity);
            if bench.cancelled.load(Ordering::Relaxed) {
                let _ = fs::remove_dir_all(&dir);
            }
            tell(Report::Ended(end.map(|end| end.map(Box::new))));
        });
        Ok(())
    }

    /// Waits for the next report of any attempt.
    fn hear(&self, progress: &mut Progress<'_>, line: &Line) -> Result<()> {
        let (number, report) = line.hear.recv().expect("the line's other end is here");
        let mut running = progress.running.iter();
        // A cancelled attempt has no place any more.
        let Some(place) = running.position(|one| one.trial.number == number) else {
            return Ok(());
        };
        match report {
            Report::Activity(activity) => {
                (self.show)(LabEvent::Activity(
                    &progress.running[place].trial,
                    &activity,
                ));
                Ok(())
            }
            Report::Ended(end) => {
                let Running { trial, attempt, .. } = progress.running.remove(place);
                match end? {
                    Some(end) => {
                        let book = &mut progress.book;
                        self.record(book, Series::Judged, (&trial, attempt), *end)?;
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// What attempts of a series are made with.
    fn bench(&self, series: Series, cancelled: Arc<AtomicBool>) -> Bench<'l> {
        Bench {
            plan: self.plan,
            machine: self.machine,
            clock: self.clock,
            greeting: self.greeting,
            series,
            purpose: Purpose::Trial,
            interrupted: self.interrupted,
            cancelled,
        }
    }

    /// Puts the end of an attempt on disk.
    fn record(
        &self,
        book: &mut Book,
        series: Series,
        (trial, attempt): (&Trial, u32),
        end: Attempted,
    ) -> Result<TrialRecord> {
        let record = TrialRecord {
            version: TRIAL_VERSION,
            trial: trial.clone(),
            attempt,
            outcome: end.outcome,
            host_time: end.host_time,
            profile: end.profile,
            defects: end.defects,
        };
        let written = self.dir.write_trial(series, &record, &end.evidence)?;
        match series {
            Series::Judged => book.keep(&record),
            Series::Profiled => {}
        }
        (self.show)(LabEvent::Record(&record));
        let ending = ending(&record.outcome);
        let own = trial.clone();
        let event = match series {
            Series::Judged => Event::Ended {
                trial: own,
                attempt,
                ending,
                record: written.record,
                facts: written.facts,
            },
            Series::Profiled => Event::Profiled {
                trial: own,
                attempt,
                ending,
                record: written.record,
            },
        };
        self.note(book, event)?;
        let run_state = match series {
            Series::Judged => &mut book.run_state,
            Series::Profiled => &mut book.profiled,
        };
        run_state.end(trial, attempt, ending);
        Ok(record)
    }

    /// The primary metrics after `blocks` blocks.
    fn compare(&self, book: &Book, blocks: u32) -> Vec<Comparison> {
        judge::primaries(&book.run(self.plan).within(blocks))
    }

    /// The run as it was after `blocks` blocks, with the last ones of these.
    fn load_recent(&self, blocks: u32) -> Result<Run> {
        let first = blocks.saturating_sub(RECENT) + 1;
        let run = rundir::load_from(self.dir.path(), &workload::check, first)?;
        Ok(run.within(blocks))
    }

    fn load(&self) -> Result<Run> {
        rundir::load(self.dir.path(), &workload::check)
    }

    /// Puts an event on disk, then shows it.
    fn note(&self, book: &mut Book, event: Event) -> Result<()> {
        let entry = Entry {
            at: self.clock.stamp(),
            event,
        };
        book.journal.append(&entry)?;
        (self.show)(LabEvent::Entry(&entry));
        book.entries.push(entry);
        Ok(())
    }
}

/// How an attempt ended, without its figures.
fn ending(outcome: &Outcome) -> Ending {
    match outcome {
        Outcome::Measured(_) => Ending::Measured,
        Outcome::Void(void) => Ending::Void(void.reason),
        Outcome::Skipped(_) => Ending::Skipped,
    }
}

/// How far the run is, by primary metric.
fn looks(primaries: &[Comparison], design: &Design) -> Vec<Look> {
    let look = |comparison: &Comparison| {
        Look::Metric(MetricLook {
            workload: comparison.workload.clone(),
            metric: comparison.spec.name.clone(),
            arm: comparison.arm.clone(),
            verdict: comparison.verdict,
            blocks: comparison.blocks,
            ratio: comparison.ratio,
            low: comparison.low,
            high: comparison.high,
            confidence: comparison.confidence,
            remaining: remaining(comparison, design),
        })
    };
    primaries.iter().map(look).collect()
}

/// How far it is to a verdict.
fn remaining(comparison: &Comparison, design: &Design) -> Remaining {
    if comparison.verdict != Verdict::Undecided {
        return Remaining::Decided;
    }
    if comparison.blocks < design.min_blocks {
        return Remaining::FirstTest {
            block: design.min_blocks,
        };
    }
    comparison
        .more
        .map_or(Remaining::Unknown, |more| Remaining::Blocks {
            more,
            margin: design.margin,
            most: design.most_blocks(),
        })
}
