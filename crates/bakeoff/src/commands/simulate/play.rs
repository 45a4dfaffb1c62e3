//! Simulates runs on all cores until they are done or the user has had enough.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use record::verdict::Verdict;
use stats::power::{Ending, Terms, simulate};

/// Longest wait in one go, so that Ctrl-C is noticed.
const GLANCE: Duration = Duration::from_millis(200);

/// What came of one line of the table.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    verdicts: Vec<Verdict>,
    /// Blocks of each run, the shortest first.
    pub(super) blocks: Vec<u32>,
}

impl Tally {
    /// Share of a verdict among those on all arms of all runs.
    pub(super) fn share(&self, verdict: Verdict) -> f64 {
        let count = self.verdicts.iter().filter(|one| **one == verdict).count();
        count as f64 / self.verdicts.len().max(1) as f64
    }

    /// Blocks on average.
    pub(super) fn mean(&self) -> f64 {
        let sum: f64 = self.blocks.iter().map(|blocks| f64::from(*blocks)).sum();
        sum / self.blocks.len().max(1) as f64
    }

    /// Blocks within which a share of the runs end.
    pub(super) fn most_of(&self, share: f64) -> u32 {
        let place = (share * self.blocks.len() as f64).ceil() as usize;
        self.blocks
            .get(place.saturating_sub(1))
            .copied()
            .unwrap_or(0)
    }
}

/// Plays each line `runs` times, all lines in turn, so that a table that was interrupted is filled evenly.
///
/// The workers are not waited for: one run of ten thousand blocks takes minutes, and Ctrl-C must not.
pub(super) fn all(
    lines: Vec<Terms>,
    (seed, runs): (u64, u32),
    tell: &dyn Fn(f64),
    interrupted: &AtomicBool,
) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); lines.len()];
    let all = lines.len() * runs as usize;
    let endings = start(lines, seed, all);
    let mut played = 0;
    while played < all && !interrupted.load(Ordering::Relaxed) {
        tell(played as f64 / all as f64);
        match endings.recv_timeout(GLANCE) {
            Ok((line, ending)) => {
                tallies[line].verdicts.extend(ending.verdicts);
                tallies[line].blocks.push(ending.blocks);
                played += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("a simulation panicked"),
        }
    }
    for tally in &mut tallies {
        tally.blocks.sort_unstable();
    }
    tallies
}

fn start(lines: Vec<Terms>, seed: u64, all: usize) -> Receiver<(usize, Ending)> {
    let (sender, endings) = channel();
    let (lines, next) = (Arc::new(lines), Arc::new(AtomicUsize::new(0)));
    for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
        let (lines, next, sender) = (Arc::clone(&lines), Arc::clone(&next), sender.clone());
        thread::spawn(move || work(&lines, seed, (&next, all), &sender));
    }
    endings
}

fn work(
    lines: &[Terms],
    seed: u64,
    (next, all): (&AtomicUsize, usize),
    sender: &Sender<(usize, Ending)>,
) {
    loop {
        let place = next.fetch_add(1, Ordering::Relaxed);
        if place >= all {
            return;
        }
        let (run, line) = (place / lines.len(), place % lines.len());
        let ending = simulate(&lines[line], seed.wrapping_add(run as u64));
        if sender.send((line, ending)).is_err() {
            // Nobody counts any more.
            return;
        }
    }
}
