//! What has happened so far, read off the journal: the state that a resumed run continues from.

use std::collections::BTreeMap;

use record::journal::{Ending, Entry, Event, Opening};
use record::trial::Trial;

/// The journal in a form that answers the lab's questions.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    opening: Option<Opening>,
    closed: bool,
    looked: u32,
    trials: Vec<Trial>,
    ended: BTreeMap<u32, Vec<Ending>>,
}

impl Ledger {
    /// Reads the journal's entries.
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut ledger = Self::default();
        for entry in entries {
            match &entry.event {
                Event::Opened(opening) => ledger.opening = Some(opening.clone()),
                Event::Started { trial, .. } => ledger.know(trial),
                Event::Ended {
                    trial,
                    attempt,
                    ending,
                    ..
                } => ledger.end(trial, *attempt, *ending),
                Event::Looked { blocks, .. } => ledger.look(*blocks),
                Event::Closed { .. } => ledger.closed = true,
                Event::Resumed { .. } => {}
            }
        }
        ledger
    }

    pub(crate) fn opening(&self) -> Option<&Opening> {
        self.opening.as_ref()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Blocks that the last look covered.
    pub(crate) fn looked(&self) -> u32 {
        self.looked
    }

    pub(crate) fn look(&mut self, blocks: u32) {
        self.looked = blocks;
    }

    /// The trial at a place of the schedule: as the journal knows it, or the next number.
    pub(crate) fn trial(&mut self, workload: &str, block: u32, slot: u32, arm: &str) -> Trial {
        let here =
            |trial: &&Trial| trial.workload == workload && trial.block == block && trial.arm == arm;
        if let Some(trial) = self.trials.iter().find(here) {
            return trial.clone();
        }
        let number = self
            .trials
            .iter()
            .map(|trial| trial.number)
            .max()
            .unwrap_or(0)
            + 1;
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
            Some(Ending::Measured | Ending::Skipped) => true,
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
