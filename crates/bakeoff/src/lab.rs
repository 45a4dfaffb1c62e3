//! The lab: plan -> trials -> journal. Only this module appends to the journal.
//!
//! ```text
//! measure the clients against a null server, if there is one                 `ceiling`
//! for each block, each undecided workload, each arm in the block's order:
//!     boot, run, record             `attempt`: once more if it failed
//!     if something outside disturbed the block: repeat it in a new order
//! interim analysis: judge all blocks so far, report failed fairness checks, stop when every workload is decided
//! if profiles are sampled: boot, run and record each block once more, for the profile only    `profiled`
//! for systems on the network: run each arm once more with one client fewer, not judged    `one_fewer`
//! ```
//! If the host's load cannot affect the figures, several attempts run at a time, each on its thread.
//! They start in schedule order, and blocks are judged in block order.
//!
//! An interim analysis judges the primary metrics of all blocks so far. It reads no file: the lab keeps the small part of each
//! record that the check needs (`without_series`). Fairness is checked on the last `FAIRNESS_BLOCKS` blocks only.
//!
//! A resumed run is the same loop over a journal that is not empty. Ended trials are skipped; the plan's seed determines the rest.

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
use record::verdict::fairness::{CheckResult, Outcome as FairnessOutcome};
use record::verdict::interim::{InterimMetric, InterimResult, Remaining};
use record::verdict::{Comparison, Verdict};

use attempt::{AttemptContext, EndedAttempt, Purpose};
use extend::Extension;
use run_state::RunState;

/// Attempts at one trial. Emulators fail now and then, so a failed attempt is repeated once.
const MAX_ATTEMPTS: u32 = 2;

/// A disturbed block is repeated at most this many times; then it counts as it is.
const MAX_REPEATS: u32 = 3;

/// An arm with this many failed trials in a row is not booted again.
const MAX_CONSECUTIVE_FAILURES: u32 = 3;

/// During a run, fairness checks see only this many of the last blocks, because the facts of one trial take 230 kB.
/// The final judgement sees all blocks.
const FAIRNESS_BLOCKS: u32 = 50;

/// In longer runs, fairness is checked only after every this many blocks.
const FAIRNESS_CHECK_INTERVAL: u32 = 10;

/// The inputs of a run. Time, machine and seed are parameters, so that tests can simulate a run.
pub struct Lab<'l> {
    /// The experiment.
    pub plan: &'l Plan,
    /// Where it is recorded.
    pub dir: &'l RunDir,
    /// Where arms boot.
    pub machine: &'l dyn Machine,
    /// Host time.
    pub clock: &'l dyn Clock,
    /// Identifies this host to the agent.
    pub greeting: &'l Greeting,
    /// Set when the user wants to stop.
    pub interrupted: &'l AtomicBool,
    /// Attempts that may run at a time, at least 1.
    pub jobs: usize,
    /// More blocks for a run that ended undecided.
    pub extension: Option<Extension>,
    /// Whether known ceilings are measured again.
    pub remeasures_ceilings: bool,
    /// Receives every event after it is on disk.
    pub show: &'l dyn Fn(LabEvent<'_>),
}

/// What is shown live.
#[derive(Debug, Clone, Copy)]
pub enum LabEvent<'n> {
    /// The first event: all entries of earlier sessions of the run.
    Before(&'n [Entry]),
    /// A journal entry that has just been written.
    Entry(&'n Entry),
    /// The record of the attempt whose `Ended` entry comes next.
    Record(&'n TrialRecord),
    /// Progress within a trial.
    Activity(&'n Trial, &'n Activity),
    /// Fairness checks that failed since the last report.
    FailedChecks {
        /// Number of blocks so far; 0 if the plan alone shows the failures.
        blocks: u32,
        /// Number of blocks before the first test.
        min_blocks: u32,
        /// The checks.
        checks: &'n [CheckResult],
    },
}

/// Progress within a trial: shown, never recorded in the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// Waiting for the agent's first message.
    Booting,
    /// The agent's phase.
    Phase(record::trial::Phase),
    /// A second of load has passed.
    Tick(Tick),
    /// The kernel or a service reported a new defect.
    Defect(Box<FoundDefect>),
    /// The attempt was cancelled because its workload is decided.
    Cancelled,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Every workload is decided, or the plan's blocks are used up.
    Complete,
    /// The user stopped the run; it can be resumed.
    Interrupted,
}

/// The journal and the state that follows from its entries.
struct JournalState {
    journal: Journal,
    run_state: RunState,
    /// The state of the trials that run only for their profile.
    profiled: RunState,
    entries: Vec<Entry>,
    /// The ended attempts, without their series.
    records: Vec<TrialRecord>,
}

impl JournalState {
    /// Keeps the part of an ended attempt that interim analyses need.
    fn keep(&mut self, record: &TrialRecord) {
        self.records.push(without_series(record));
    }

    /// The run so far, without series.
    fn run(&self, plan: &Plan) -> Run {
        let Some(Event::Opened(opening)) = self.entries.first().map(|entry| &entry.event) else {
            panic!("the first entry of a journal opens it");
        };
        Run::in_progress(plan, opening, &self.entries, &self.records)
    }
}

/// A copy of a record without histograms and series, which take megabytes for an hour of load.
fn without_series(record: &TrialRecord) -> TrialRecord {
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

/// Runs the plan, or resumes an interrupted run.
pub fn run(lab: &Lab<'_>, opening: Opening) -> Result<Finish> {
    let (mut state, entries) = lab.open_journal()?;
    if state.run_state.is_closed() && lab.extension.is_none() {
        return lab.measure_ceilings_again(&mut state, &opening, &entries);
    }
    lab.load_ended_attempts(&mut state, &entries)?;
    match (state.run_state.opening(), &lab.extension) {
        (None, _) => lab.append_event(&mut state, Event::Opened(opening))?,
        (Some(before), None) => {
            refuse_changes(before, &opening)?;
            let bakeoff = opening.bakeoff;
            lab.append_event(&mut state, Event::Resumed { bakeoff })?;
        }
        (Some(before), Some(extension)) => {
            refuse_changes(before, &opening)?;
            lab.append_event(&mut state, extension.event(opening.bakeoff))?;
            state.run_state.extend(extension.to);
        }
    }
    if !lab.measure_ceilings(&mut state, &entries)? {
        return Ok(Finish::Interrupted);
    }
    match lab.run_blocks(state)? {
        (mut state, Some(reason)) => {
            if !lab.run_profiled(&mut state)? || !lab.run_one_fewer(&mut state)? {
                return Ok(Finish::Interrupted);
            }
            lab.append_event(&mut state, Event::Closed { reason })?;
            Ok(Finish::Complete)
        }
        (_, None) => Ok(Finish::Interrupted),
    }
}

/// A resumed run must have the inputs and the machine that it began with.
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

/// The inputs that changed, a description each.
fn changed_inputs(before: &Opening, now: &Opening) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, sha) in &before.inputs {
        match now.inputs.get(name) {
            Some(same) if same == sha => {}
            Some(other) => changes.push(format!("{name} was {sha:.12}, is {other:.12}")),
            None => changes.push(format!("{name} is gone")),
        }
    }
    for name in now.inputs.keys() {
        if !before.inputs.contains_key(name) {
            changes.push(format!("{name} is new"));
        }
    }
    changes
}

/// An attempt that runs on its thread.
struct RunningAttempt {
    trial: Trial,
    attempt: u32,
    /// Set to cancel the attempt.
    cancelled: Arc<AtomicBool>,
}

/// A message from the thread of an attempt to the lab, sent with the number of the trial.
enum Report {
    Activity(Activity),
    Ended(Result<Option<Box<EndedAttempt>>>),
}

/// How far the run is.
struct Progress<'p> {
    state: JournalState,
    /// The block that is judged next.
    block: u32,
    /// The workloads that run in this block.
    open: Vec<&'p WorkloadPlan>,
    /// The open workloads with trials of this block that have not ended.
    incomplete: Vec<&'p WorkloadPlan>,
    /// Whether only this block runs here, and another process judges it.
    is_single_block: bool,
    running: Vec<RunningAttempt>,
    /// Ids of the fairness checks whose failure was reported.
    reported: BTreeSet<String>,
}

impl<'p> Progress<'p> {
    fn new(
        state: JournalState,
        block: u32,
        open: Vec<&'p WorkloadPlan>,
        is_single_block: bool,
    ) -> Self {
        Self {
            state,
            block,
            incomplete: open.clone(),
            open,
            is_single_block,
            running: Vec::new(),
            reported: BTreeSet::new(),
        }
    }

    /// Cancels the attempts of unwanted trials; they leave no record.
    fn cancel(&mut self, is_unwanted: impl Fn(&Trial) -> bool) -> Vec<Trial> {
        let running = &mut self.running;
        let cancelled = running.extract_if(.., |attempt| is_unwanted(&attempt.trial));
        cancelled
            .inspect(|attempt| attempt.cancelled.store(true, Ordering::Relaxed))
            .map(|attempt| attempt.trial)
            .collect()
    }
}

/// An attempt that may start now.
struct NextAttempt<'p> {
    workload: &'p WorkloadPlan,
    trial: Trial,
    attempt: u32,
}

impl<'l> Lab<'l> {
    /// Opens the journal and shows its entries.
    fn open_journal(&self) -> Result<(JournalState, Vec<Entry>)> {
        let (journal, entries) = Journal::open(self.dir.tree())?;
        let state = JournalState {
            journal,
            run_state: RunState::from_entries(&entries),
            profiled: RunState::profiled_from_entries(&entries),
            entries: entries.clone(),
            records: Vec::new(),
        };
        (self.show)(LabEvent::Before(&entries));
        Ok((state, entries))
    }

    /// Loads the attempts that ended in earlier sessions.
    fn load_ended_attempts(&self, state: &mut JournalState, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            if let Event::Ended {
                trial,
                attempt,
                record,
                ..
            } = &entry.event
            {
                let record = rundir::load_attempt(self.dir.path(), trial, *attempt, record)?;
                state.keep(&record);
            }
        }
        Ok(())
    }

    /// Runs blocks until every workload is decided. Returns the reason why the run ended, or `None` if it was interrupted.
    ///
    /// Attempts start in the order of the schedule, `jobs` at a time. While the last attempts of a block run, those of the
    /// next block start. They are recorded at once, and judged when their block is complete.
    fn run_blocks(&self, state: JournalState) -> Result<(JournalState, Option<CloseReason>)> {
        let judged = state.run_state.judged_blocks();
        let open = self.undecided(&self.compare(&state, judged));
        let mut progress = Progress::new(state, judged + 1, open, false);
        self.report_failed_checks(&mut progress.reported, judged)?;
        if let Some(reason) = self.close_reason(&progress) {
            return Ok((progress.state, Some(reason)));
        }
        let end = self.run_to_end(&mut progress)?;
        Ok((progress.state, end))
    }

    /// Runs the remaining attempts. Returns the reason why the run ended, or `None` if it was interrupted.
    fn run_to_end(&self, progress: &mut Progress<'l>) -> Result<Option<CloseReason>> {
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            let end = self.run_attempts(progress, scope, &sender, &receiver);
            // The scope waits for its threads, and after an error some of them still run.
            progress.cancel(|_| true);
            end
        })
    }

    fn run_attempts<'s>(
        &self,
        progress: &mut Progress<'l>,
        scope: &'s Scope<'s, '_>,
        sender: &Sender<(u32, Report)>,
        receiver: &Receiver<(u32, Report)>,
    ) -> Result<Option<CloseReason>>
    where
        'l: 's,
    {
        loop {
            if let Some(end) = self.complete_blocks(progress)? {
                return Ok(Some(end));
            }
            while progress.running.len() < self.jobs && !self.interrupted.load(Ordering::Relaxed) {
                let Some(next) = self.next_attempt(progress) else {
                    break;
                };
                self.start_attempt(progress, next, scope, sender)?;
            }
            if progress.running.is_empty() {
                if self.interrupted.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                // Every attempt that could start was skipped.
                continue;
            }
            self.receive_report(progress, receiver)?;
        }
    }

    /// Judges every complete block. Returns the reason why the run is over, or `None` if it goes on.
    fn complete_blocks(&self, progress: &mut Progress<'l>) -> Result<Option<CloseReason>> {
        loop {
            let block = progress.block;
            while let Some(workload) = progress.incomplete.first() {
                if !self.is_complete(&mut progress.state, workload, block)? {
                    return Ok(None);
                }
                progress.incomplete.remove(0);
            }
            if progress.is_single_block {
                return Ok(Some(CloseReason::OneBlock { block }));
            }
            self.interim_analysis(progress)?;
            if let Some(reason) = self.close_reason(progress) {
                self.cancel(progress, |_| true);
                return Ok(Some(reason));
            }
            let open = progress.open.clone();
            let is_open = |trial: &Trial| open.iter().any(|open| open.id == trial.workload);
            self.cancel(progress, |trial| !is_open(trial));
        }
    }

    /// Judges all blocks up to the current one, which is complete, and makes the next block the current one.
    fn interim_analysis(&self, progress: &mut Progress<'l>) -> Result<()> {
        let block = progress.block;
        let primaries = self.compare(&progress.state, block);
        let open = self.undecided(&primaries);
        let event = Event::InterimAnalysis {
            blocks: block,
            results: interim_analyses(&primaries, &self.design(&progress.state.run_state)),
            undecided: open.iter().map(|workload| workload.id.clone()).collect(),
        };
        self.append_event(&mut progress.state, event)?;
        progress.state.run_state.set_judged_blocks(block);
        if block <= FAIRNESS_BLOCKS || block.is_multiple_of(FAIRNESS_CHECK_INTERVAL) {
            self.report_failed_checks(&mut progress.reported, block)?;
        }
        // A failure common to all arms shows from the first block on.
        if block <= FAIRNESS_BLOCKS {
            repeat::refuse(&self.load_recent(block)?)?;
        }
        progress.block = block + 1;
        progress.incomplete.clone_from(&open);
        progress.open = open;
        Ok(())
    }

    /// Reports failed fairness checks while the user can still correct the run. Before the first block these are failures
    /// that the plan predicts; later, new ones. At the first test, failures that trials show are reported again.
    fn report_failed_checks(&self, reported: &mut BTreeSet<String>, blocks: u32) -> Result<()> {
        let min_blocks = self.plan.design.min_blocks;
        if blocks == min_blocks {
            reported.retain(|id| judge::topics::fairness::is_of_plan(id));
        }
        let recent = self.load_recent(blocks)?;
        let findings = match blocks {
            0 => judge::topics::fairness::accept(
                judge::topics::fairness::of_plan(self.plan),
                &recent.accepted,
            ),
            _ => judge::summary(&recent).fairness,
        };
        let is_new_failure = |finding: &CheckResult| {
            matches!(finding.outcome, FairnessOutcome::Failed { .. })
                && !reported.contains(&finding.id)
        };
        let new: Vec<CheckResult> = findings.into_iter().filter(is_new_failure).collect();
        if new.is_empty() {
            return Ok(());
        }
        (self.show)(LabEvent::FailedChecks {
            blocks,
            min_blocks,
            checks: &new,
        });
        // A failure that the plan predicts is reported again when a trial shows it.
        if blocks > 0 {
            reported.extend(new.into_iter().map(|finding| finding.id));
        }
        Ok(())
    }

    fn cancel(&self, progress: &mut Progress<'l>, is_unwanted: impl Fn(&Trial) -> bool) {
        for trial in progress.cancel(is_unwanted) {
            (self.show)(LabEvent::Activity(&trial, &Activity::Cancelled));
        }
    }

    /// Why the run ends before the next block; `None` if the block is to be run.
    fn close_reason(&self, progress: &Progress<'_>) -> Option<CloseReason> {
        let run_state = &progress.state.run_state;
        let blocks = progress.block - 1;
        if progress.open.is_empty() {
            return Some(CloseReason::Decided { blocks });
        }
        let max_blocks = self.max_blocks(run_state);
        if blocks < max_blocks {
            return self.no_arm_can_finish(run_state);
        }
        Some(match run_state.max_blocks() {
            Some(_) => CloseReason::BlocksGiven { blocks: max_blocks },
            None => CloseReason::BlocksOfPlan { blocks: max_blocks },
        })
    }

    /// Blocks that the run may have in all.
    fn max_blocks(&self, run_state: &RunState) -> u32 {
        let extended = run_state.max_blocks();
        extended.unwrap_or(self.plan.design.max_blocks)
    }

    /// The plan's design, including the blocks by which the run was extended.
    fn design(&self, run_state: &RunState) -> Design {
        let design = &self.plan.design;
        Design {
            more_blocks: self.max_blocks(run_state).saturating_sub(design.max_blocks),
            ..design.clone()
        }
    }

    fn undecided(&self, primaries: &[Comparison]) -> Vec<&'l WorkloadPlan> {
        let is_undecided = |workload: &&WorkloadPlan| !judge::is_decided(primaries, &workload.id);
        self.plan.workloads.iter().filter(is_undecided).collect()
    }

    /// The reason why no further block can be completed, if there is one.
    fn no_arm_can_finish(&self, run_state: &RunState) -> Option<CloseReason> {
        let works = |arm: &str| run_state.consecutive_failures(arm) < MAX_CONSECUTIVE_FAILURES;
        let (baseline, others) = self
            .plan
            .arms
            .split_first()
            .expect("plan is validated: two arms");
        let trials = MAX_CONSECUTIVE_FAILURES;
        if !works(&baseline.name) {
            return Some(CloseReason::NoBaseline { trials });
        }
        let no_other_works = !others.iter().any(|arm| works(&arm.name));
        no_other_works.then_some(CloseReason::NoArm { trials })
    }

    /// Whether all trials of one block of one workload have ended. Invalidates a block that something outside
    /// disturbed; its trials then have to run again.
    fn is_complete(
        &self,
        state: &mut JournalState,
        workload: &WorkloadPlan,
        block: u32,
    ) -> Result<bool> {
        let id = &workload.id;
        if self.next_of_block(state, workload, block, &[]).is_some() {
            return Ok(false);
        }
        if state.run_state.repeats(id, block) >= MAX_REPEATS {
            return Ok(true);
        }
        let block_trials = state.run_state.block_trials(id, block);
        let trials: Vec<u32> = block_trials.map(|trial| trial.number).collect();
        // If several trials run at a time, some of the next block may have ended.
        let run = state.run(self.plan).within(block);
        let Some(disturbance) = judge::disturbance(&run, id, &trials) else {
            return Ok(true);
        };
        state.run_state.invalidate(id, block, &trials);
        let event = Event::Invalidated {
            workload: id.clone(),
            block,
            trials,
            disturbance,
        };
        self.append_event(state, event)?;
        Ok(false)
    }

    /// The attempt to start next, of the current block or of the one after it.
    fn next_attempt(&self, progress: &mut Progress<'l>) -> Option<NextAttempt<'l>> {
        let running = progress.running.iter();
        let running: Vec<u32> = running.map(|attempt| attempt.trial.number).collect();
        let max_blocks = self.max_blocks(&progress.state.run_state);
        let ahead = u32::from(!progress.is_single_block);
        for block in progress.block..=max_blocks.min(progress.block + ahead) {
            for workload in &progress.open {
                let next = self.next_of_block(&mut progress.state, workload, block, &running);
                if next.is_some() {
                    return next;
                }
            }
        }
        None
    }

    /// The next attempt of one block of one workload, except those of the `running` trials.
    fn next_of_block(
        &self,
        state: &mut JournalState,
        workload: &'l WorkloadPlan,
        block: u32,
        running: &[u32],
    ) -> Option<NextAttempt<'l>> {
        let order = judge::order(self.plan, &workload.id, block);
        order.into_iter().zip(1..).find_map(|(arm, slot)| {
            let trial = state.run_state.trial(&workload.id, block, slot, &arm);
            let attempt = state.run_state.next_attempt(&trial, MAX_ATTEMPTS)?;
            (!running.contains(&trial.number)).then_some(NextAttempt {
                workload,
                trial,
                attempt,
            })
        })
    }

    /// Starts an attempt on a new thread, or records that it is skipped.
    fn start_attempt<'s>(
        &self,
        progress: &mut Progress<'l>,
        next: NextAttempt<'l>,
        scope: &'s Scope<'s, '_>,
        sender: &Sender<(u32, Report)>,
    ) -> Result<()>
    where
        'l: 's,
    {
        let (workload, trial, attempt) = (next.workload, next.trial, next.attempt);
        let state = &mut progress.state;
        let event = Event::Started {
            trial: trial.clone(),
            attempt,
        };
        self.append_event(state, event)?;
        let failures = state.run_state.consecutive_failures(&trial.arm);
        let dir = self.dir.trial_dir(Series::Judged, &trial, attempt)?;
        if attempt == 1 && failures >= MAX_CONSECUTIVE_FAILURES {
            let arm = &trial.arm;
            let reason = format!("arm {arm} gave no figure in {failures} trials in a row");
            let skipped = EndedAttempt::skipped(reason);
            self.record_attempt(state, Series::Judged, &trial, attempt, skipped)?;
            return Ok(());
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        progress.running.push(RunningAttempt {
            trial: trial.clone(),
            attempt,
            cancelled: Arc::clone(&cancelled),
        });
        let context = self.attempt_context(Series::Judged, cancelled);
        let sender = sender.clone();
        scope.spawn(move || {
            // The lab ignores reports of cancelled attempts.
            let send = |report| drop(sender.send((trial.number, report)));
            let on_activity = |activity| send(Report::Activity(activity));
            let end = attempt::run(&context, workload, &trial, &dir, &on_activity);
            if context.cancelled.load(Ordering::Relaxed) {
                let _ = fs::remove_dir_all(&dir);
            }
            send(Report::Ended(end.map(|end| end.map(Box::new))));
        });
        Ok(())
    }

    /// Waits for the next report of any attempt.
    fn receive_report(
        &self,
        progress: &mut Progress<'_>,
        receiver: &Receiver<(u32, Report)>,
    ) -> Result<()> {
        let (number, report) = receiver.recv().expect("the caller holds a sender");
        let mut running = progress.running.iter();
        let Some(index) = running.position(|attempt| attempt.trial.number == number) else {
            // The attempt was cancelled.
            return Ok(());
        };
        match report {
            Report::Activity(activity) => {
                let trial = &progress.running[index].trial;
                (self.show)(LabEvent::Activity(trial, &activity));
            }
            Report::Ended(end) => {
                let RunningAttempt { trial, attempt, .. } = progress.running.remove(index);
                if let Some(end) = end? {
                    let state = &mut progress.state;
                    self.record_attempt(state, Series::Judged, &trial, attempt, *end)?;
                }
            }
        }
        Ok(())
    }

    /// The context for attempts of a series.
    fn attempt_context(&self, series: Series, cancelled: Arc<AtomicBool>) -> AttemptContext<'l> {
        AttemptContext {
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

    /// Writes an ended attempt to disk and to the journal.
    fn record_attempt(
        &self,
        state: &mut JournalState,
        series: Series,
        trial: &Trial,
        attempt: u32,
        end: EndedAttempt,
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
            Series::Judged => state.keep(&record),
            Series::Profiled => {}
        }
        (self.show)(LabEvent::Record(&record));
        let ending = ending(&record.outcome);
        let event = match series {
            Series::Judged => Event::Ended {
                trial: trial.clone(),
                attempt,
                ending,
                record: written.record,
                facts: written.facts,
            },
            Series::Profiled => Event::Profiled {
                trial: trial.clone(),
                attempt,
                ending,
                record: written.record,
            },
        };
        self.append_event(state, event)?;
        let run_state = match series {
            Series::Judged => &mut state.run_state,
            Series::Profiled => &mut state.profiled,
        };
        run_state.end(trial, attempt, ending);
        Ok(record)
    }

    /// The primary metrics after `blocks` blocks.
    fn compare(&self, state: &JournalState, blocks: u32) -> Vec<Comparison> {
        judge::primaries(&state.run(self.plan).within(blocks))
    }

    /// The last `FAIRNESS_BLOCKS` blocks of the run as it was after `blocks` blocks.
    fn load_recent(&self, blocks: u32) -> Result<Run> {
        let first = blocks.saturating_sub(FAIRNESS_BLOCKS) + 1;
        let run = rundir::load_from(self.dir.path(), &workload::check, first)?;
        Ok(run.within(blocks))
    }

    fn load(&self) -> Result<Run> {
        rundir::load(self.dir.path(), &workload::check)
    }

    /// Appends an event to the journal, then shows it.
    fn append_event(&self, state: &mut JournalState, event: Event) -> Result<()> {
        let entry = Entry {
            at: self.clock.stamp(),
            event,
        };
        state.journal.append(&entry)?;
        (self.show)(LabEvent::Entry(&entry));
        state.entries.push(entry);
        Ok(())
    }
}

/// How an attempt ended, without figures.
fn ending(outcome: &Outcome) -> Ending {
    match outcome {
        Outcome::Measured(_) => Ending::Measured,
        Outcome::Void(void) => Ending::Void(void.reason),
        Outcome::Skipped(_) => Ending::Skipped,
    }
}

/// The state of each primary metric, for the journal.
fn interim_analyses(primaries: &[Comparison], design: &Design) -> Vec<InterimResult> {
    let metric_result = |comparison: &Comparison| {
        InterimResult::Metric(InterimMetric {
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
    primaries.iter().map(metric_result).collect()
}

/// How many blocks a verdict still needs.
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
