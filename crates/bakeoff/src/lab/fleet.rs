//! A run whose blocks nodes of a cluster run: one block on a node, and the run that takes blocks over.
//!
//! ```text
//! on a node     run_block    the block's trials, in the order that seed and block give; its own journal, no look
//! at the run    run          for each block in turn: wait for it, take it over, look, stop when every workload is decided
//! ```
//! Blocks are taken over in their order, never in that of their ends, which would favour fast nodes. What was run of later blocks
//! when all is decided stays in their directories, and no look counts it. All that is said here follows from files: who waits, and
//! how jobs come to nodes, is the `Scheduler`'s.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};
use base::input::tree::Tree;
use plan::{Plan, WorkloadPlan};
use record::fleet;
use record::fleet::EndedBlock;
use record::journal::JOURNAL;
use record::journal::{Entry, Event, Opening};
use record::trial::Trial;

use super::{Book, Finish, Lab, LabEvent, Progress, changed_inputs, refuse_changes};

/// Has blocks run somewhere.
pub trait Scheduler {
    /// Waits until a block has ended; blocks from it on up to `most` may be run meanwhile.
    ///
    /// # Errors
    /// The block cannot be run.
    fn wait(&mut self, block: u32, most: u32) -> Result<Waited>;
}

/// What waiting for a block came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The block has ended.
    Ended,
    /// The user stopped it.
    Interrupted,
}

/// Runs one block of a run, or what is left of it. `wanted` are the ids of the workloads that were undecided when it began.
pub fn run_block(
    lab: &Lab<'_>,
    opening: Opening,
    block: u32,
    wanted: Vec<String>,
) -> Result<Finish> {
    let (mut book, entries) = lab.open_book()?;
    book.run_state.number_after(trials_before(lab.plan, block));
    if book.run_state.is_closed() {
        return Ok(Finish::Complete);
    }
    lab.take_up(&mut book, &entries)?;
    match book.run_state.opening() {
        None => lab.note(&mut book, Event::Opened(opening))?,
        Some(before) => {
            refuse_changes(before, &opening)?;
            let bakeoff = opening.bakeoff;
            lab.note(&mut book, Event::Resumed { bakeoff })?;
        }
    }
    let wanted = undecided_at(&entries).unwrap_or(wanted);
    // Earlier blocks are looked at elsewhere.
    let looked = Event::Looked {
        blocks: block - 1,
        looks: Vec::new(),
        undecided: wanted.clone(),
    };
    lab.note(&mut book, looked)?;
    book.run_state.look(block - 1);
    let workloads = lab.plan.workloads.iter();
    let open: Vec<&WorkloadPlan> = workloads.filter(|one| wanted.contains(&one.id)).collect();
    let mut progress = Progress {
        book,
        block,
        incomplete: open.clone(),
        open,
        is_alone: true,
        running: Vec::new(),
        told: BTreeSet::new(),
    };
    match lab.run_to_end(&mut progress)? {
        Some(reason) => {
            lab.note(&mut progress.book, Event::Closed { reason })?;
            Ok(Finish::Complete)
        }
        None => Ok(Finish::Interrupted),
    }
}

/// Runs a plan on a fleet, or goes on where an interrupted run stopped.
pub fn run(lab: &Lab<'_>, scheduler: &mut dyn Scheduler) -> Result<Finish> {
    let (mut book, entries) = lab.open_book()?;
    if book.run_state.is_closed() && lab.extension.is_none() {
        return Ok(Finish::Complete);
    }
    lab.take_up(&mut book, &entries)?;
    if let Some(before) = book.run_state.opening() {
        let bakeoff = before.bakeoff.clone();
        let event = match &lab.extension {
            None => Event::Resumed { bakeoff },
            Some(extension) => {
                book.run_state.extend(extension.to);
                extension.event(bakeoff)
            }
        };
        lab.note(&mut book, event)?;
    }
    let mut taken_over = taken_over(&entries);
    let looked = book.run_state.looked();
    let open = match book.run_state.opening() {
        Some(_) => lab.undecided(&lab.compare(&book, looked)),
        None => lab.plan.workloads.iter().collect(),
    };
    let mut progress = Progress {
        book,
        block: looked + 1,
        incomplete: open.clone(),
        open,
        is_alone: false,
        running: Vec::new(),
        told: BTreeSet::new(),
    };
    loop {
        if let Some(reason) = lab.obstacle(&progress) {
            lab.note(&mut progress.book, Event::Closed { reason })?;
            return Ok(Finish::Complete);
        }
        let given = progress.book.run_state.most();
        let most = given.unwrap_or(lab.plan.design.max_blocks);
        match scheduler.wait(progress.block, most)? {
            Waited::Interrupted => return Ok(Finish::Interrupted),
            Waited::Ended => {}
        }
        lab.take_over(&mut progress.book, progress.block, taken_over.take())?;
        lab.look(&mut progress)?;
    }
}

/// Trials that the blocks before have where none is run again: numbers then are those of a run on one host.
fn trials_before(plan: &Plan, block: u32) -> u32 {
    (block - 1) * (plan.arms.len() * plan.workloads.len()) as u32
}

/// The workloads that a block's journal says it runs.
fn undecided_at(entries: &[Entry]) -> Option<Vec<String>> {
    entries.iter().find_map(|entry| {
        let Event::Looked { undecided, .. } = &entry.event else {
            return None;
        };
        Some(undecided.clone())
    })
}

/// Ids of the workloads that a run goes on with, as its journal says now; all where it says nothing.
pub fn undecided(run: &Path, plan: &Plan) -> Result<Vec<String>> {
    let run = Tree::at(run);
    let all = || plan.workloads.iter().map(|one| one.id.clone()).collect();
    if !run.has(JOURNAL) {
        return Ok(all());
    }
    let mut last = None;
    for entry in record::journal::read(&run)? {
        let is_extended = matches!(entry.event, Event::Extended { .. });
        if let Event::Looked { undecided, .. } = entry.event {
            last = Some(undecided);
        } else if is_extended {
            last = None;
        }
    }
    Ok(last.unwrap_or_else(all))
}

/// A block that an interrupted run had begun to take over: its number, and how many of its entries are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Begun {
    block: u32,
    entries: usize,
}

fn taken_over(entries: &[Entry]) -> Option<Begun> {
    let mut begun = None;
    for entry in entries {
        match &entry.event {
            Event::Merged { block, .. } => {
                begun = Some(Begun {
                    block: *block,
                    entries: 0,
                });
            }
            Event::Looked { .. } => begun = None,
            event => {
                if let Some(begun) = begun.as_mut().filter(|_| fleet::is_taken_over(event)) {
                    begun.entries += 1;
                }
            }
        }
    }
    begun
}

impl Lab<'_> {
    /// Puts what a node has recorded of a block into the run's journal and trials, from where that was interrupted.
    fn take_over(&self, book: &mut Book, block: u32, begun: Option<Begun>) -> Result<()> {
        let run = self.dir.path();
        let Some(ended) = fleet::ended(run, block)? else {
            bail!(
                "block {block} has not ended: {}",
                fleet::block_dir(run, block).display()
            );
        };
        match book.run_state.opening() {
            None => {
                let entry = Entry {
                    at: self.clock.stamp(),
                    event: Event::Opened(ended.opening.clone()),
                };
                self.append(book, &entry)?;
            }
            Some(before) => refuse_another_system(before, block, &ended)?,
        }
        let already = begun.filter(|begun| begun.block == block);
        if already.is_none() {
            let event = Event::Merged {
                block,
                node: ended.node.clone(),
                given_up_on: ended.given_up_on.clone(),
            };
            self.note(book, event)?;
        }
        let before = book.run_state.begun_in(block);
        let numbers = Numbers {
            was: Vec::new(),
            is: before.iter().map(|trial| trial.number).collect(),
            next: book.run_state.next_number(),
        };
        let skipped = already.map_or(0, |begun| begun.entries);
        self.take_over_entries(book, ended, numbers, skipped)
    }

    fn take_over_entries(
        &self,
        book: &mut Book,
        ended: EndedBlock,
        mut numbers: Numbers,
        skipped: usize,
    ) -> Result<()> {
        for (index, mut entry) in ended.entries.into_iter().enumerate() {
            let is_new = skipped <= index;
            match &mut entry.event {
                Event::Started { trial, .. } => *trial = numbers.renumbered(trial),
                Event::Ended {
                    trial,
                    attempt,
                    record,
                    ..
                } => {
                    let was = trial.clone();
                    *trial = numbers.renumbered(trial);
                    if is_new {
                        let from = fleet::block_dir(self.dir.path(), trial.block);
                        let (taken, sha) =
                            self.dir
                                .take_over(&from, (&was, &*trial), *attempt, record)?;
                        *record = sha;
                        book.keep(&taken);
                        (self.show)(LabEvent::Record(&taken));
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
                self.append(book, &entry)?;
            }
        }
        Ok(())
    }

    /// Puts an entry of a block's journal into the run's, as it was written.
    fn append(&self, book: &mut Book, entry: &Entry) -> Result<()> {
        book.journal.append(entry)?;
        book.entries.push(entry.clone());
        (self.show)(LabEvent::Entry(entry));
        book.run_state.add(entry);
        Ok(())
    }
}

/// What trials of a block are called in the run: blocks that were run again have more trials than were foreseen.
struct Numbers {
    /// In the block's directory, in the order in which they were begun.
    was: Vec<u32>,
    /// In the run, as far as they are there.
    is: Vec<u32>,
    /// The run's next one.
    next: u32,
}

impl Numbers {
    fn number(&mut self, was: u32) -> u32 {
        let place = self.was.iter().position(|known| *known == was);
        let place = place.unwrap_or_else(|| {
            self.was.push(was);
            self.was.len() - 1
        });
        while self.is.len() <= place {
            self.is.push(self.next);
            self.next += 1;
        }
        self.is[place]
    }

    fn renumbered(&mut self, trial: &Trial) -> Trial {
        Trial {
            number: self.number(trial.number),
            ..trial.clone()
        }
    }
}

/// Nodes may be of different hardware. What they boot, and what their time is, must be the same.
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
