//! The lab: plan -> trials -> journal. Only this room appends to the journal.
//!
//! ```text
//! for each block, for each workload that is not decided, for each arm in the block's order:
//!     boot, run, record             `attempt`: once more if it gave no figure
//!     something outside disturbed it: the whole block again, in a new order
//! then look: judge all blocks so far, stop when every workload is decided
//! ```
//! A run that was interrupted is the same loop over a journal that is not empty: trials that have
//! ended are passed over, everything else follows from the plan's seed.

mod attempt;
mod guest_cpu;
mod ledger;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use machine::clock::Clock;
use machine::guest::Machine;
use record::journal::{Ending, Entry, Event, Journal, Opening};
use record::metric::Role;
use record::plan::{Design, Plan, WorkloadPlan};
use record::rundir::{self, Run, RunDir, TRIAL_VERSION, TrialRecord};
use record::trial::{Outcome, Trial};
use record::verdict::{Comparison, Judgement, Verdict};
use record::wire::Greeting;

use ledger::Ledger;

/// Attempts at one trial: emulators fail now and then, so one more is tried.
const ATTEMPTS: u32 = 2;

/// A block that was disturbed is run again so often; then it counts as it is.
const REDOS: u32 = 3;

/// An arm that gave no figure in so many trials in a row is not booted again.
const PATIENCE: u32 = 3;

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
    /// Told of everything, after it is on disk.
    pub show: &'l dyn Fn(News<'_>),
}

/// What is shown live.
#[derive(Debug, Clone, Copy)]
pub enum News<'n> {
    /// An entry of the journal; those of an earlier session come first.
    Entry(&'n Entry),
    /// The record of the attempt whose `Ended` entry comes next.
    Record(&'n TrialRecord),
    /// Something passing within a trial.
    Passing(&'n Trial, Passing),
}

/// Something passing: shown, never recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Passing {
    /// Waiting for the agent's first word.
    Booting,
    /// The agent's phase.
    Phase(record::wire::Phase),
    /// Right answers so far, and seconds of load.
    Progress {
        /// Seconds since the load began.
        second: u32,
        /// Right answers so far.
        ok: u64,
    },
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
    ledger: Ledger,
}

/// Runs the plan, or goes on where an interrupted run stopped.
pub fn run(lab: &Lab<'_>, opening: Opening) -> Result<Finish> {
    let (journal, entries) = Journal::open(&lab.dir.journal())?;
    let mut book = Book {
        journal,
        ledger: Ledger::of(&entries),
    };
    for entry in &entries {
        (lab.show)(News::Entry(entry));
    }
    if book.ledger.is_closed() {
        return Ok(Finish::Complete);
    }
    match book.ledger.opening() {
        None => lab.note(&mut book, Event::Opened(opening))?,
        Some(before) => {
            refuse_changes(before, &opening)?;
            let bakeoff = opening.bakeoff;
            lab.note(&mut book, Event::Resumed { bakeoff })?;
        }
    }
    match lab.run_blocks(&mut book)? {
        Some(reason) => {
            lab.note(&mut book, Event::Closed { reason })?;
            Ok(Finish::Complete)
        }
        None => Ok(Finish::Interrupted),
    }
}

/// A run that goes on must stand on what it began with.
fn refuse_changes(before: &Opening, now: &Opening) -> Result<()> {
    let mut changes = Vec::new();
    for (name, sha) in &before.inputs {
        match now.inputs.get(name) {
            Some(same) if same == sha => {}
            Some(other) => changes.push(format!("{name} was {sha:.12}, is {other:.12}")),
            None => changes.push(format!("{name} is gone")),
        }
    }
    let added = now
        .inputs
        .keys()
        .filter(|name| !before.inputs.contains_key(*name));
    changes.extend(added.map(|name| format!("{name} is new")));
    if before.machine != now.machine {
        changes.push(format!(
            "machine was {}, is {}",
            before.machine, now.machine
        ));
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

impl Lab<'_> {
    /// Runs blocks until all is decided; `None` when interrupted, else why it ended.
    fn run_blocks(&self, book: &mut Book) -> Result<Option<String>> {
        let most = self.plan.design.max_blocks;
        let mut judgement = self.judge()?;
        for block in book.ledger.looked() + 1..=most {
            let open = self.open(&book.ledger, &judgement, block);
            if open.is_empty() {
                return Ok(Some(format!("decided after {} blocks", block - 1)));
            }
            if let Some(why) = self.hopeless(&book.ledger) {
                return Ok(Some(why));
            }
            for workload in open {
                if !self.run_block(book, workload, block)? {
                    return Ok(None);
                }
            }
            judgement = self.judge()?;
            let lines = look_lines(&judgement, &self.plan.design);
            self.note(
                book,
                Event::Looked {
                    blocks: block,
                    lines,
                },
            )?;
            book.ledger.look(block);
        }
        let end = if self.undecided(&judgement).is_empty() {
            "decided"
        } else {
            "not all decided"
        };
        Ok(Some(format!(
            "{end} after {most} blocks, the most that the plan allows"
        )))
    }

    /// The workloads that need a block. One that had begun it when the run was interrupted ends it first, because what
    /// it seems to decide may yet be found to be disturbed.
    fn open(&self, ledger: &Ledger, judgement: &Judgement, block: u32) -> Vec<&WorkloadPlan> {
        let undecided = self.undecided(judgement);
        let is_open = |workload: &&WorkloadPlan| {
            ledger.has_begun(&workload.id, block) || undecided.contains(workload)
        };
        self.plan.workloads.iter().filter(is_open).collect()
    }

    fn undecided(&self, judgement: &Judgement) -> Vec<&WorkloadPlan> {
        let open = |workload: &&WorkloadPlan| !verdict::is_decided(judgement, &workload.id);
        self.plan.workloads.iter().filter(open).collect()
    }

    /// Why no block can be completed any more.
    fn hopeless(&self, ledger: &Ledger) -> Option<String> {
        let alive = |arm: &str| ledger.misses_in_a_row(arm) < PATIENCE;
        let (baseline, others) = self
            .plan
            .arms
            .split_first()
            .expect("plan is validated: two arms");
        if !alive(&baseline.name) {
            return Some(format!(
                "the baseline gave no figure in {PATIENCE} trials in a row"
            ));
        }
        let none = !others.iter().any(|arm| alive(&arm.name));
        none.then(|| format!("no arm but the baseline gave a figure in {PATIENCE} trials in a row"))
    }

    /// Runs what is left of one block of one workload, again if something outside disturbed it; whether it came to an
    /// end before an interruption.
    fn run_block(&self, book: &mut Book, workload: &WorkloadPlan, block: u32) -> Result<bool> {
        let id = &workload.id;
        loop {
            let redo = book.ledger.redos(id, block);
            if !self.run_trials(book, workload, block, redo)? {
                return Ok(false);
            }
            let trials: Vec<u32> = book
                .ledger
                .of_block(id, block)
                .map(|trial| trial.number)
                .collect();
            let disturbance = verdict::disturbance(&self.load()?, id, &trials);
            let Some(reason) = disturbance.filter(|_| redo < REDOS) else {
                return Ok(true);
            };
            book.ledger.strike(id, block, &trials);
            let workload = id.clone();
            self.note(
                book,
                Event::Invalidated {
                    workload,
                    block,
                    trials,
                    reason,
                },
            )?;
        }
    }

    /// Runs what is left of the trials of a block; whether they all ended before an interruption.
    fn run_trials(
        &self,
        book: &mut Book,
        workload: &WorkloadPlan,
        block: u32,
        redo: u32,
    ) -> Result<bool> {
        let order = verdict::order(self.plan, &workload.id, block, redo);
        for (arm, slot) in order.into_iter().zip(1..) {
            let trial = book.ledger.trial(&workload.id, block, slot, &arm);
            while let Some(attempt) = book.ledger.next_attempt(&trial, ATTEMPTS) {
                if self.interrupted.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                let Some(ending) = self.run_trial(book, workload, &trial, attempt)? else {
                    return Ok(false);
                };
                book.ledger.end(&trial, attempt, ending);
            }
        }
        Ok(true)
    }

    /// One attempt at a trial, recorded; `None` when interrupted.
    fn run_trial(
        &self,
        book: &mut Book,
        workload: &WorkloadPlan,
        trial: &Trial,
        attempt: u32,
    ) -> Result<Option<Ending>> {
        self.note(
            book,
            Event::Started {
                trial: trial.clone(),
                attempt,
            },
        )?;
        let misses = book.ledger.misses_in_a_row(&trial.arm);
        let dir = self.dir.trial_dir(trial, attempt)?;
        let end = if attempt == 1 && misses >= PATIENCE {
            let why = format!(
                "arm {} gave no figure in {misses} trials in a row",
                trial.arm
            );
            Some((Outcome::Skipped(why), rundir::Evidence::default()))
        } else {
            attempt::run(self, workload, trial, &dir)?
        };
        let Some((outcome, evidence)) = end else {
            return Ok(None);
        };
        let record = TrialRecord {
            version: TRIAL_VERSION,
            trial: trial.clone(),
            attempt,
            outcome,
        };
        let sha = self.dir.write_trial(&record, &evidence)?;
        (self.show)(News::Record(&record));
        let ending = match &record.outcome {
            Outcome::Measured(_) => Ending::Measured,
            Outcome::Void(void) => Ending::Void(void.reason),
            Outcome::Skipped(_) => Ending::Skipped,
        };
        let trial = trial.clone();
        self.note(
            book,
            Event::Ended {
                trial,
                attempt,
                ending,
                record: sha,
            },
        )?;
        Ok(Some(ending))
    }

    fn judge(&self) -> Result<Judgement> {
        Ok(verdict::judge(&self.load()?))
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
        (self.show)(News::Entry(&entry));
        Ok(())
    }
}

/// One line per primary metric: how far the run is.
fn look_lines(judgement: &Judgement, design: &Design) -> Vec<String> {
    let primary = |comparison: &&Comparison| comparison.spec.role == Role::Primary;
    judgement
        .comparisons
        .iter()
        .filter(primary)
        .map(|comparison| look_line(comparison, design))
        .collect()
}

/// `web throughput: 7.2 undecided, 9 blocks, -1.8 % [-4.1, +0.6], about 20 more for a 2 % margin`.
fn look_line(comparison: &Comparison, design: &Design) -> String {
    let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
    let mut parts = vec![format!(
        "{} {}: {} {}",
        comparison.workload,
        comparison.spec.name,
        comparison.arm,
        comparison.verdict.word()
    )];
    match comparison.blocks {
        0 => parts.push("no whole block".into()),
        1 => parts.push("1 block".into()),
        blocks => parts.push(format!("{blocks} blocks")),
    }
    match (comparison.ratio, comparison.low, comparison.high) {
        (Some(ratio), Some(low), Some(high)) => parts.push(format!(
            "{} % [{}, {}]",
            percent(ratio),
            percent(low),
            percent(high)
        )),
        (Some(ratio), _, _) => parts.push(format!("{} %", percent(ratio))),
        (None, _, _) => {}
    }
    parts.extend(left(comparison, design));
    parts.join(", ")
}

/// How far it is to a verdict.
fn left(comparison: &Comparison, design: &Design) -> Option<String> {
    let Design {
        min_blocks,
        max_blocks,
        margin,
        ..
    } = design;
    // Two places at the most: `2`, `0.25`.
    let margin = (margin * 1e4).round() / 1e2;
    if comparison.verdict != Verdict::Undecided {
        return None;
    }
    if comparison.blocks < *min_blocks {
        return Some(format!("first look after {min_blocks}"));
    }
    let more = comparison.more?;
    let beyond = if comparison.blocks + more > *max_blocks {
        format!(" (the plan ends at {max_blocks})")
    } else {
        String::new()
    };
    Some(format!("about {more} more for a {margin} % margin{beyond}"))
}
