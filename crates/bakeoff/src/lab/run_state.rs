//! The state of a run that follows from its journal. A resumed run continues from it.

use std::collections::{BTreeMap, BTreeSet};

use record::journal::{Ending, Entry, Event, Opening};
use record::trial::{Trial, VoidReason};

/// The state of a run: which trials were started, how they ended, and which blocks were judged.
#[derive(Debug, Default)]
pub(crate) struct RunState {
    opening: Option<Opening>,
    closed: bool,
    /// Blocks that the run may have in all, if it was extended.
    max_blocks: Option<u32>,
    judged_blocks: u32,
    /// Number of the last trial of earlier blocks, if those run elsewhere.
    numbered_before: u32,
    trials: Vec<Trial>,
    ended: BTreeMap<u32, Vec<Ending>>,
    /// Trials of invalidated blocks.
    invalidated: BTreeSet<u32>,
    /// How often a block was invalidated, by workload and block.
    repeats: BTreeMap<(String, u32), u32>,
}

impl RunState {
    /// The state after the journal's entries.
    pub(crate) fn from_entries(entries: &[Entry]) -> Self {
        let mut run_state = Self::default();
        for entry in entries {
            run_state.add(entry);
        }
        run_state
    }

    /// Applies an entry.
    pub(crate) fn add(&mut self, entry: &Entry) {
        match &entry.event {
            Event::Opened(opening) => self.opening = Some(opening.clone()),
            Event::Started { trial, .. } => self.add_trial(trial),
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
            } => self.invalidate(workload, *block, trials),
            Event::InterimAnalysis { blocks, .. } => self.set_judged_blocks(*blocks),
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

    /// The state of the trials that run only for their profile.
    pub(crate) fn profiled_from_entries(entries: &[Entry]) -> Self {
        let mut run_state = Self::default();
        for entry in entries {
            match &entry.event {
                Event::Profiling { trial, .. } => run_state.add_trial(trial),
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
                | Event::InterimAnalysis { .. }
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

    /// Blocks that the run may have in all, if it was extended.
    pub(crate) fn max_blocks(&self) -> Option<u32> {
        self.max_blocks
    }

    /// Reopens the run for more blocks, up to `max_blocks` in all.
    pub(crate) fn extend(&mut self, max_blocks: u32) {
        self.max_blocks = Some(max_blocks);
        self.closed = false;
    }

    /// Numbers new trials after the given number of trials, which run elsewhere.
    pub(crate) fn number_after(&mut self, trials: u32) {
        self.numbered_before = trials;
    }

    /// The block's trials in the order in which they were started, invalidated ones included.
    pub(crate) fn trials_of_block(&self, block: u32) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| trial.block == block)
    }

    /// The number of the next trial.
    pub(crate) fn next_number(&self) -> u32 {
        let numbers = self.trials.iter().map(|trial| trial.number);
        numbers.max().unwrap_or(self.numbered_before) + 1
    }

    /// Number of blocks that the last interim analysis judged.
    pub(crate) fn judged_blocks(&self) -> u32 {
        self.judged_blocks
    }

    pub(crate) fn set_judged_blocks(&mut self, blocks: u32) {
        self.judged_blocks = blocks;
    }

    /// The last judged block that has a trial of this workload, 0 if there is none.
    pub(crate) fn last_block(&self, workload: &str) -> u32 {
        let trials = self.trials.iter();
        let trials = trials.filter(|trial| trial.workload == workload);
        let blocks = trials.map(|trial| trial.block);
        let judged = blocks.filter(|block| *block <= self.judged_blocks);
        judged.max().unwrap_or(0)
    }

    /// The trials of a block of a workload, without invalidated ones.
    pub(crate) fn block_trials(&self, workload: &str, block: u32) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| {
            trial.workload == workload
                && trial.block == block
                && !self.invalidated.contains(&trial.number)
        })
    }

    /// How often a block was invalidated.
    pub(crate) fn repeats(&self, workload: &str, block: u32) -> u32 {
        let key = (workload.to_owned(), block);
        self.repeats.get(&key).copied().unwrap_or(0)
    }

    /// Marks a block as invalidated, so that it is repeated.
    pub(crate) fn invalidate(&mut self, workload: &str, block: u32, trials: &[u32]) {
        self.invalidated.extend(trials);
        let repeats = self.repeats.entry((workload.to_owned(), block));
        *repeats.or_default() += 1;
    }

    /// The trial at a place of the schedule: the known one, or a new one with the next number.
    pub(crate) fn trial(&mut self, workload: &str, block: u32, slot: u32, arm: &str) -> Trial {
        let known = self
            .block_trials(workload, block)
            .find(|trial| trial.arm == arm);
        if let Some(trial) = known {
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
        self.add_trial(&trial);
        trial
    }

    /// The number of the trial's next attempt. `None` if the trial was measured or skipped, or used all attempts.
    pub(crate) fn next_attempt(&self, trial: &Trial, max_attempts: u32) -> Option<u32> {
        let ended = self.ended.get(&trial.number).map_or(&[][..], Vec::as_slice);
        let over = match ended.last() {
            Some(Ending::Measured | Ending::Skipped | Ending::Void(VoidReason::SettingRefused)) => {
                true
            }
            Some(Ending::Void(_)) | None => false,
        };
        let next = ended.len() as u32 + 1;
        (!over && next <= max_attempts).then_some(next)
    }

    /// Records the end of an attempt.
    pub(crate) fn end(&mut self, trial: &Trial, attempt: u32, ending: Ending) {
        self.add_trial(trial);
        let ended = self.ended.entry(trial.number).or_default();
        ended.truncate(attempt as usize - 1);
        ended.push(ending);
    }

    /// The number of the arm's latest trials in a row whose last attempt was not measured.
    pub(crate) fn consecutive_failures(&self, arm: &str) -> u32 {
        let trials = self.trials.iter().rev().filter(|trial| trial.arm == arm);
        let endings = trials.filter_map(|trial| self.ended.get(&trial.number)?.last());
        endings
            .take_while(|ending| **ending != Ending::Measured)
            .count() as u32
    }

    fn add_trial(&mut self, trial: &Trial) {
        if !self.trials.contains(trial) {
            self.trials.push(trial.clone());
        }
    }
}
