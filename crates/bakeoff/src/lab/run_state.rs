//! What has happened so far, read off the journal: the state that a resumed run continues from.

use std::collections::{BTreeMap, BTreeSet};

use record::journal::{Ending, Entry, Event, Opening};
use record::trial::{Trial, VoidReason};

/// The journal in a form that answers the lab's questions.
#[derive(Debug, Default)]
pub(crate) struct RunState {
    opening: Option<Opening>,
    closed: bool,
    /// Blocks that the run may have in all, where it was given more than its plan's.
    most: Option<u32>,
    looked: u32,
    /// Trials that are numbered elsewhere, before the first one here.
    numbered_before: u32,
    trials: Vec<Trial>,
    ended: BTreeMap<u32, Vec<Ending>>,
    /// Trials of invalidated blocks.
    struck: BTreeSet<u32>,
    /// How often a block was invalidated, by workload and block.
    redos: BTreeMap<(String, u32), u32>,
}

impl RunState {
    /// Reads the journal's entries.
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut run_state = Self::default();
        for entry in entries {
            run_state.add(entry);
        }
        run_state
    }

    /// Adds what an entry says.
    pub(crate) fn add(&mut self, entry: &Entry) {
        match &entry.event {
            Event::Opened(opening) => self.opening = Some(opening.clone()),
            Event::Started { trial, .. } => self.know(trial),
            Event::Ended {
                trial,
                attempt,
                ending,
                ..
            } => self.end(trial, *attempt, *ending),
            Event::Invalidated {
                workload,
                block,
                trials,
                ..
            } => self.strike(workload, *block, trials),
            Event::Looked { blocks, .. } => self.look(*blocks),
            Event::Closed { .. } => self.closed = true,
            Event::Extended { to, .. } => self.extend(*to),
            Event::Resumed { .. }
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Profiling { .. }
            | Event::Profiled { .. } => {}
        }
    }

    /// Reads what the journal says of trials that are run for their profile alone.
    pub(crate) fn of_profiled(entries: &[Entry]) -> Self {
        let mut run_state = Self::default();
        for entry in entries {
            match &entry.event {
                Event::Profiling { trial, .. } => run_state.know(trial),
                Event::Profiled {
                    trial,
                    attempt,
                    ending,
                    ..
                } => run_state.end(trial, *attempt, *ending),
                Event::Opened(_)
                | Event::Resumed { .. }
                | Event::Ceiling { .. }
                | Event::OneFewer { .. }
                | Event::Merged { .. }
                | Event::Started { .. }
                | Event::Ended { .. }
                | Event::Invalidated { .. }
                | Event::Looked { .. }
                | Event::Closed { .. }
                | Event::Extended { .. } => {}
            }
        }
        run_state
    }

    pub(crate) fn opening(&self) -> Option<&Opening> {
        self.opening.as_ref()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Blocks that the run may have in all, where it was given more than its plan's.
    pub(crate) fn most(&self) -> Option<u32> {
        self.most
    }

    /// Notes that the run goes on, to a later block.
    pub(crate) fn extend(&mut self, most: u32) {
        (self.most, self.closed) = (Some(most), false);
    }

    /// Has numbers of trials begin after those of so many that are run elsewhere.
    pub(crate) fn number_after(&mut self, trials: u32) {
        self.numbered_before = trials;
    }

    /// The block's trials in the order in which they were begun, those that were struck among them.
    pub(crate) fn begun_in(&self, block: u32) -> Vec<Trial> {
        let its = self.trials.iter().filter(|trial| trial.block == block);
        its.cloned().collect()
    }

    /// The number of the next trial that is begun.
    pub(crate) fn next_number(&self) -> u32 {
        let numbers = self.trials.iter().map(|trial| trial.number);
        numbers.max().unwrap_or(self.numbered_before) + 1
    }

    /// Blocks that the last look covered.
    pub(crate) fn looked(&self) -> u32 {
        self.looked
    }

    pub(crate) fn look(&mut self, blocks: u32) {
        self.looked = blocks;
    }

    /// The last block that was looked at and has a trial of this workload.
    pub(crate) fn last_block(&self, workload: &str) -> u32 {
        let its = self.trials.iter().filter(|one| one.workload == workload);
        let looked = its.filter(|one| one.block <= self.looked);
        looked.map(|one| one.block).max().unwrap_or(0)
    }

    /// The block's trials that were not struck.
    pub(crate) fn of_block(&self, workload: &str, block: u32) -> impl Iterator<Item = &Trial> {
        let its = move |trial: &&Trial| trial.workload == workload && trial.block == block;
        let counts = |trial: &&Trial| !self.struck.contains(&trial.number);
        self.trials.iter().filter(its).filter(counts)
    }

    /// How often a block was invalidated.
    pub(crate) fn redos(&self, workload: &str, block: u32) -> u32 {
        let key = (workload.to_owned(), block);
        self.redos.get(&key).copied().unwrap_or(0)
    }

    /// Notes that a block is to be run again.
    pub(crate) fn strike(&mut self, workload: &str, block: u32, trials: &[u32]) {
        self.struck.extend(trials);
        *self.redos.entry((workload.to_owned(), block)).or_default() += 1;
    }

    /// The trial at a place of the schedule: as the journal knows it, or the next number.
    pub(crate) fn trial(&mut self, workload: &str, block: u32, slot: u32, arm: &str) -> Trial {
        let here = self
            .of_block(workload, block)
            .find(|trial| trial.arm == arm);
        if let Some(trial) = here {
            return trial.clone();
        }
        let number = self.next_number();
        let trial = Trial {
            number,
            block,
            slot,
            arm: arm.into(),
            workload: workload.into(),
        };
        self.know(&trial);
        trial
    }

    /// The attempt to make next; `None` when the trial has been measured, skipped or used up.
    pub(crate) fn next_attempt(&self, trial: &Trial, most: u32) -> Option<u32> {
        let ended = self.ended.get(&trial.number).map_or(&[][..], Vec::as_slice);
        let over = match ended.last() {
            Some(Ending::Measured | Ending::Skipped | Ending::Void(VoidReason::SettingRefused)) => {
                true
            }
            Some(Ending::Void(_)) | None => false,
        };
        let next = ended.len() as u32 + 1;
        (!over && next <= most).then_some(next)
    }

    /// Notes the end of an attempt.
    pub(crate) fn end(&mut self, trial: &Trial, attempt: u32, ending: Ending) {
        self.know(trial);
        let ended = self.ended.entry(trial.number).or_default();
        ended.truncate(attempt as usize - 1);
        ended.push(ending);
    }

    /// Trials of an arm, latest first, whose last attempt gave no figure.
    pub(crate) fn misses_in_a_row(&self, arm: &str) -> u32 {
        let last = |trial: &Trial| self.ended.get(&trial.number)?.last().copied();
        let mine = self.trials.iter().rev().filter(|trial| trial.arm == arm);
        let endings = mine.filter_map(last);
        endings
            .take_while(|ending| *ending != Ending::Measured)
            .count() as u32
    }

    fn know(&mut self, trial: &Trial) {
        if !self.trials.contains(trial) {
            self.trials.push(trial.clone());
        }
    }
}
