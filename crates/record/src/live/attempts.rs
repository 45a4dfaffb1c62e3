//! The attempts at trials so far, from the journal.

use std::time::SystemTime;

use crate::journal::{Ending, Entry, Event};
use crate::rundir::Series;
use crate::trial::Trial;

/// One attempt at a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Which trial.
    pub trial: Trial,
    /// Which attempt, counted from 1.
    pub attempt: u32,
    /// Its purpose.
    pub series: Series,
    /// When it started.
    pub begun: Option<SystemTime>,
    /// When and how it ended; `None` while it is running, and if it was interrupted.
    pub ended: Option<(Option<SystemTime>, Ending)>,
    /// Whether it does not count, because its block was invalidated.
    pub is_invalidated: bool,
}

impl Attempt {
    /// Its directory relative to that of the run: `trials/007`, or `trials/007.2`.
    pub fn place(&self) -> String {
        let (folder, number) = (self.series.folder(), self.trial.number);
        match self.attempt {
            1 => format!("{folder}/{number:03}"),
            more => format!("{folder}/{number:03}.{more}"),
        }
    }

    /// Whether it was measured.
    pub fn is_measured(&self) -> bool {
        matches!(self.ended, Some((_, Ending::Measured)))
    }
}

/// Activity of a running attempt, as far as its files show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activity {
    /// It boots or is set up; the load has not begun.
    Starting,
    /// Warm-up of the load.
    WarmingUp,
    /// The load in the window.
    Measuring {
        /// Seconds of the window so far.
        second: f64,
        /// Length of the window in seconds; `None` if a program runs to its end.
        of_s: Option<f64>,
    },
    /// The window is over; facts are collected.
    Ending,
}

/// All attempts in the order of their starts. Interrupted ones are left out, because a resumed run starts them again.
pub(crate) fn of(entries: &[Entry]) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    for entry in entries {
        match &entry.event {
            Event::Started { trial, attempt } => {
                attempts.push(started(entry, trial, *attempt, Series::Judged));
            }
            Event::Profiling { trial, attempt } => {
                attempts.push(started(entry, trial, *attempt, Series::Profiled));
            }
            Event::Ended {
                trial,
                attempt,
                ending,
                ..
            } => end(
                &mut attempts,
                started(entry, trial, *attempt, Series::Judged),
                *ending,
            ),
            Event::Profiled {
                trial,
                attempt,
                ending,
                ..
            } => end(
                &mut attempts,
                started(entry, trial, *attempt, Series::Profiled),
                *ending,
            ),
            Event::Invalidated { trials, .. } => {
                for attempt in &mut attempts {
                    attempt.is_invalidated |=
                        attempt.series == Series::Judged && trials.contains(&attempt.trial.number);
                }
            }
            Event::Resumed { .. } | Event::Extended { .. } => {
                attempts.retain(|attempt| attempt.ended.is_some());
            }
            Event::Opened(_)
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::InterimAnalysis { .. }
            | Event::Closed { .. } => {}
        }
    }
    attempts
}

fn started(entry: &Entry, trial: &Trial, attempt: u32, series: Series) -> Attempt {
    Attempt {
        trial: trial.clone(),
        attempt,
        series,
        begun: humantime::parse_rfc3339(&entry.at).ok(),
        ended: None,
        is_invalidated: false,
    }
}

/// Ends an attempt. `at_end` is the attempt as if it had started at its end: skipped attempts have no start, and are added so.
fn end(attempts: &mut Vec<Attempt>, mut at_end: Attempt, ending: Ending) {
    let is_same = |known: &&mut Attempt| {
        known.trial.number == at_end.trial.number
            && known.attempt == at_end.attempt
            && known.series == at_end.series
    };
    let ended = Some((at_end.begun, ending));
    if let Some(known) = attempts.iter_mut().rev().find(is_same) {
        known.ended = ended;
    } else {
        at_end.ended = ended;
        attempts.push(at_end);
    }
}
