//! Runs on a cluster: each node runs one block, and the coordinating run merges the blocks.
//!
//! ```text
//! on a node         run_block    run the block's trials in the order given by seed and block; separate journal, no judging
//! coordinating run  run          for each block in turn: wait for it, merge it, judge, stop when every workload is decided
//! ```
//! Blocks are merged in block order. The order in which they end would favour fast nodes. If the run is decided early, later
//! blocks stay in their directories and are not judged. Everything here follows from files; the `Scheduler` sends jobs to
//! nodes and waits for them.

use std::path::Path;

use anyhow::{Result, bail};
use base::input::tree::Tree;
use plan::{Plan, WorkloadPlan};
use record::fleet;
use record::fleet::EndedBlock;
use record::journal::JOURNAL;
use record::journal::{Entry, Event, Opening};
use record::trial::Trial;

use super::{Finish, JournalState, Lab, LabEvent, Progress, changed_inputs, refuse_changes};

/// Has blocks run on nodes.
pub trait Scheduler {
    /// Waits until a block has ended. Meanwhile later blocks up to `most` may run.
    ///
    /// # Errors
    /// The block cannot be run.
    fn wait(&mut self, block: u32, most: u32) -> Result<Waited>;
}

/// Why a wait for a block ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The block has ended.
    Ended,
    /// The user stopped the run.
    Interrupted,
}

/// Runs the remaining trials of one block. `wanted` are the ids of the workloads that were undecided when the block began.
pub fn run_block(
    lab: &Lab<'_>,
    opening: Opening,
    block: u32,
    wanted: Vec<String>,
) -> Result<Finish> {
    let (mut state, entries) = lab.open_journal()?;
    state.run_state.number_after(trials_before(lab.plan, block));
    if state.run_state.is_closed() {
        return Ok(Finish::Complete);
    }
    lab.load_ended_attempts(&mut state, &entries)?;
    match state.run_state.opening() {
        None => lab.append_event(&mut state, Event::Opened(opening))?,
        Some(before) => {
            refuse_changes(before, &opening)?;
            let bakeoff = opening.bakeoff;
            lab.append_event(&mut state, Event::Resumed { bakeoff })?;
        }
    }
    let wanted = undecided_at(&entries).unwrap_or(wanted);
    // The coordinating run judges earlier blocks.
    let event = Event::InterimAnalysis {
        blocks: block - 1,
        results: Vec::new(),
        undecided: wanted.clone(),
    };
    lab.append_event(&mut state, event)?;
    state.run_state.set_judged_blocks(block - 1);
    let workloads = lab.plan.workloads.iter();
    let open: Vec<&WorkloadPlan> = workloads
        .filter(|workload| wanted.contains(&workload.id))
        .collect();
    let mut progress = Progress::new(state, block, open, true);
    match lab.run_to_end(&mut progress)? {
        Some(reason) => {
            lab.append_event(&mut progress.state, Event::Closed { reason })?;
            Ok(Finish::Complete)
        }
        None => Ok(Finish::Interrupted),
    }
}

/// Runs a plan on a fleet, or resumes an interrupted run.
pub fn run(lab: &Lab<'_>, scheduler: &mut dyn Scheduler) -> Result<Finish> {
    let (mut state, entries) = lab.open_journal()?;
    if state.run_state.is_closed() && lab.extension.is_none() {
        return Ok(Finish::Complete);
    }
    lab.load_ended_attempts(&mut state, &entries)?;
    if let Some(before) = state.run_state.opening() {
        let bakeoff = before.bakeoff.clone();
        let event = match &lab.extension {
            None => Event::Resumed { bakeoff },
            Some(extension) => {
                state.run_state.extend(extension.to);
                extension.event(bakeoff)
            }
        };
        lab.append_event(&mut state, event)?;
    }
    let mut partly_merged = partly_merged_block(&entries);
    let judged = state.run_state.judged_blocks();
    let open = match state.run_state.opening() {
        Some(_) => lab.undecided(&lab.compare(&state, judged)),
        None => lab.plan.workloads.iter().collect(),
    };
    let mut progress = Progress::new(state, judged + 1, open, false);
    loop {
        if let Some(reason) = lab.close_reason(&progress) {
            lab.append_event(&mut progress.state, Event::Closed { reason })?;
            return Ok(Finish::Complete);
        }
        let max_blocks = lab.max_blocks(&progress.state.run_state);
        match scheduler.wait(progress.block, max_blocks)? {
            Waited::Interrupted => return Ok(Finish::Interrupted),
            Waited::Ended => {}
        }
        lab.merge_block(&mut progress.state, progress.block, partly_merged.take())?;
        lab.interim_analysis(&mut progress)?;
    }
}

/// The number of trials in the blocks before, not counting repeats. So trial numbers equal those of a run on one host.
fn trials_before(plan: &Plan, block: u32) -> u32 {
    (block - 1) * (plan.arms.len() * plan.workloads.len()) as u32
}

/// The workloads that a block's journal names as undecided.
fn undecided_at(entries: &[Entry]) -> Option<Vec<String>> {
    entries.iter().find_map(|entry| {
        let Event::InterimAnalysis { undecided, .. } = &entry.event else {
            return None;
        };
        Some(undecided.clone())
    })
}

/// Ids of the workloads that the run's journal names as undecided; all workloads if it names none.
pub fn undecided(run: &Path, plan: &Plan) -> Result<Vec<String>> {
    let run = Tree::at(run);
    let mut last = None;
    if run.has(JOURNAL) {
        for entry in record::journal::read(&run)? {
            match entry.event {
                Event::InterimAnalysis { undecided, .. } => last = Some(undecided),
                Event::Extended { .. } => last = None,
                _ => {}
            }
        }
    }
    let all = plan.workloads.iter().map(|workload| workload.id.clone());
    Ok(last.unwrap_or_else(|| all.collect()))
}

/// A block that an interrupted run has merged in part: its number, and how many of its entries are in the run's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PartlyMerged {
    block: u32,
    entries: usize,
}

fn partly_merged_block(entries: &[Entry]) -> Option<PartlyMerged> {
    let mut partly_merged = None;
    for entry in entries {
        match &entry.event {
            Event::Merged { block, .. } => {
                partly_merged = Some(PartlyMerged {
                    block: *block,
                    entries: 0,
                });
            }
            Event::InterimAnalysis { .. } => partly_merged = None,
            event => {
                if let Some(partly_merged) = partly_merged
                    .as_mut()
                    .filter(|_| fleet::is_taken_over(event))
                {
                    partly_merged.entries += 1;
                }
            }
        }
    }
    partly_merged
}

impl Lab<'_> {
    /// Merges a block that a node has run into the run's journal and trials, or resumes an interrupted merge.
    fn merge_block(
        &self,
        state: &mut JournalState,
        block: u32,
        partly_merged: Option<PartlyMerged>,
    ) -> Result<()> {
        let run = self.dir.path();
        let Some(ended) = fleet::ended(run, block)? else {
            bail!(
                "block {block} has not ended: {}",
                fleet::block_dir(run, block).display()
            );
        };
        match state.run_state.opening() {
            None => {
                let entry = Entry {
                    at: self.clock.stamp(),
                    event: Event::Opened(ended.opening.clone()),
                };
                self.append_entry(state, &entry)?;
            }
            Some(before) => refuse_another_system(before, block, &ended)?,
        }
        let partly_merged = partly_merged.filter(|merged| merged.block == block);
        if partly_merged.is_none() {
            let event = Event::Merged {
                block,
                node: ended.node.clone(),
                given_up_on: ended.given_up_on.clone(),
            };
            self.append_event(state, event)?;
        }
        let merged_trials = state.run_state.trials_of_block(block);
        let numbers = TrialNumbers {
            in_block: Vec::new(),
            in_run: merged_trials.map(|trial| trial.number).collect(),
            next: state.run_state.next_number(),
        };
        let merged_entries = partly_merged.map_or(0, |merged| merged.entries);
        self.merge_entries(state, ended, numbers, merged_entries)
    }

    fn merge_entries(
        &self,
        state: &mut JournalState,
        ended: EndedBlock,
        mut numbers: TrialNumbers,
        merged_entries: usize,
    ) -> Result<()> {
        for (index, mut entry) in ended.entries.into_iter().enumerate() {
            let is_new = merged_entries <= index;
            match &mut entry.event {
                Event::Started { trial, .. } => *trial = numbers.renumber(trial),
                Event::Ended {
                    trial,
                    attempt,
                    record,
                    ..
                } => {
                    let block_trial = trial.clone();
                    *trial = numbers.renumber(trial);
                    if is_new {
                        let from = fleet::block_dir(self.dir.path(), trial.block);
                        let (merged, sha) =
                            self.dir
                                .take_over(&from, &block_trial, trial, *attempt, record)?;
                        *record = sha;
                        state.keep(&merged);
                        (self.show)(LabEvent::Record(&merged));
                    }
                }
                Event::Invalidated { trials, .. } => {
                    for number in trials {
                        *number = numbers.number(*number);
                    }
                }
                _ => continue,
            }
            if is_new {
                self.append_entry(state, &entry)?;
            }
        }
        Ok(())
    }

    /// Appends an entry of a block's journal to the run's journal, with its original time.
    fn append_entry(&self, state: &mut JournalState, entry: &Entry) -> Result<()> {
        state.journal.append(entry)?;
        state.entries.push(entry.clone());
        (self.show)(LabEvent::Entry(entry));
        state.run_state.add(entry);
        Ok(())
    }
}

/// Maps trial numbers of a block to those of the run. They differ after a repeated block, which has more trials.
struct TrialNumbers {
    /// Numbers in the block's directory, in the order in which the trials were started.
    in_block: Vec<u32>,
    /// Numbers of the same trials in the run, as far as they are assigned.
    in_run: Vec<u32>,
    /// The next free number of the run.
    next: u32,
}

impl TrialNumbers {
    fn number(&mut self, in_block: u32) -> u32 {
        let known = self.in_block.iter().position(|number| *number == in_block);
        let index = known.unwrap_or_else(|| {
            self.in_block.push(in_block);
            self.in_block.len() - 1
        });
        while self.in_run.len() <= index {
            self.in_run.push(self.next);
            self.next += 1;
        }
        self.in_run[index]
    }

    fn renumber(&mut self, trial: &Trial) -> Trial {
        Trial {
            number: self.number(trial.number),
            ..trial.clone()
        }
    }
}

/// Nodes may have different hardware. But they must boot the same inputs and use the same clock.
fn refuse_another_system(before: &Opening, block: u32, ended: &EndedBlock) -> Result<()> {
    let now = &ended.opening;
    let mut changes = changed_inputs(before, now);
    if before.ns_per_instruction != now.ns_per_instruction {
        let clock = |counted: Option<u32>| match counted {
            Some(ns) => format!("counted instructions of {ns} ns"),
            None => "the wall clock".into(),
        };
        let [was, is] = [before.ns_per_instruction, now.ns_per_instruction].map(clock);
        changes.push(format!("time was {was}, is {is}"));
    }
    if before.string_price != now.string_price || before.clients != now.clients {
        changes.push("instructions or clients are not placed alike".into());
    }
    if changes.is_empty() {
        return Ok(());
    }
    bail!(
        "block {block} was run on another system than the blocks before, on node {}: {} (give nodes one cache by XDG_CACHE_HOME on \
         a file system that they share, write clock = \"wall\" or \"instructions\" in [machine], and begin a new run with --out DIR)",
        ended.node.name,
        changes.join("; ")
    )
}
