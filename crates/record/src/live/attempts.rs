//! Which attempts at trials there are, from the journal.

use std::collections::BTreeSet;
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
    /// What it is run for.
    pub series: Series,
    /// When it began.
    pub begun: Option<SystemTime>,
    /// When and how it ended; `None` while it is under way, and where it was cut off.
    pub ended: Option<(Option<SystemTime>, Ending)>,
    /// Whether its block was invalidated, so that it does not count.
    pub is_struck: bool,
}

impl Attempt {
    /// Its directory below that of the run: `trials/007`, or `trials/007.2`.
    pub fn place(&self) -> String {
        let (folder, number) = (self.series.folder(), self.trial.number);
        match self.attempt {
            1 => format!("{folder}/{number:03}"),
            more => format!("{folder}/{number:03}.{more}"),
        }
    }

    /// Whether it gave figures.
    pub fn is_measured(&self) -> bool {
        matches!(self.ended, Some((_, Ending::Measured)))
    }
}

/// What an attempt that is under way does, as far as its files show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activity {
    /// It boots, or is set up: nothing of the load was told yet.
    Starting,
    /// The load runs, not counted.
    WarmingUp,
    /// The load runs and counts.
    Measuring {
        /// Seconds of the window that are over.
        second: f64,
        /// Seconds that the window has; `None` where a program runs to its end.
        of_s: Option<f64>,
    },
    /// The window is over; facts are collected.
    Ending,
}

/// All attempts in the order in which they began. What was under way when a run was interrupted is begun anew, and is not here.
pub(crate) fn of(entries: &[Entry]) -> Vec<Attempt> {
    let mut all: Vec<Attempt> = Vec::new();
    for entry in entries {
        match &entry.event {
            Event::Started { trial, attempt } => {
                all.push(begun(entry, trial, *attempt, Series::Judged));
            }
            Event::Profiling { trial, attempt } => {
                all.push(begun(entry, trial, *attempt, Series::Profiled));
            }
            Event::Ended {
                trial,
                attempt,
                ending,
                ..
            } => end(&mut all, entry, (trial, *attempt, Series::Judged), *ending),
            Event::Profiled {
                trial,
                attempt,
                ending,
                ..
            } => end(
                &mut all,
                entry,
                (trial, *attempt, Series::Profiled),
                *ending,
            ),
            Event::Invalidated { trials, .. } => {
                let struck: BTreeSet<u32> = trials.iter().copied().collect();
                for one in &mut all {
                    one.is_struck |=
                        one.series == Series::Judged && struck.contains(&one.trial.number);
                }
            }
            Event::Resumed { .. } | Event::Extended { .. } => all.retain(|one| one.ended.is_some()),
            Event::Opened(_)
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Looked { .. }
            | Event::Closed { .. } => {}
        }
    }
    all
}

fn begun(entry: &Entry, trial: &Trial, attempt: u32, series: Series) -> Attempt {
    Attempt {
        trial: trial.clone(),
        attempt,
        series,
        begun: at(entry),
        ended: None,
        is_struck: false,
    }
}

fn end(
    all: &mut Vec<Attempt>,
    entry: &Entry,
    (trial, attempt, series): (&Trial, u32, Series),
    ending: Ending,
) {
    let same = |one: &&mut Attempt| {
        one.trial.number == trial.number && one.attempt == attempt && one.series == series
    };
    let ended = Some((at(entry), ending));
    match all.iter_mut().rev().find(same) {
        Some(known) => known.ended = ended,
        // One that is skipped is never begun.
        None => all.push(Attempt {
            begun: at(entry),
            ended,
            ..begun(entry, trial, attempt, series)
        }),
    }
}

fn at(entry: &Entry) -> Option<SystemTime> {
    humantime::parse_rfc3339(&entry.at).ok()
}
