//! Simulates runs on all cores until they are done or the user interrupts.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use record::verdict::Verdict;
use stats::power::{Ending, Terms, simulate};

/// Longest single wait for a result, so that Ctrl-C is noticed in time.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The results of one line of the table.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    verdicts: Vec<Verdict>,
    /// Blocks of each run, the shortest first.
    pub(super) blocks: Vec<u32>,
}

impl Tally {
    /// Share of a verdict among the verdicts on all arms of all runs.
    pub(super) fn share(&self, verdict: Verdict) -> f64 {
        let verdicts = self.verdicts.iter();
        let count = verdicts.filter(|other| **other == verdict).count();
        count as f64 / self.verdicts.len().max(1) as f64
    }

    /// Mean number of blocks.
    pub(super) fn mean(&self) -> f64 {
        let sum: f64 = self.blocks.iter().map(|blocks| f64::from(*blocks)).sum();
        sum / self.blocks.len().max(1) as f64
    }

    /// Number of blocks within which the given share of the runs ends.
    pub(super) fn blocks_of_share(&self, share: f64) -> u32 {
        let count = (share * self.blocks.len() as f64).ceil() as usize;
        self.blocks
            .get(count.saturating_sub(1))
            .copied()
            .unwrap_or(0)
    }
}

/// Simulates each line `runs` times, all lines in turn, so that an interrupted table is filled evenly.
///
/// It does not wait for the workers after an interruption: one run of ten thousand blocks takes minutes.
pub(super) fn simulate_all(
    lines: Vec<Terms>,
    seed: u64,
    runs: u32,
    on_progress: &dyn Fn(f64),
    interrupted: &AtomicBool,
) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); lines.len()];
    let total = lines.len() * runs as usize;
    let endings = start_workers(lines, seed, total);
    let mut simulated = 0;
    while simulated < total && !interrupted.load(Ordering::Relaxed) {
        on_progress(simulated as f64 / total as f64);
        match endings.recv_timeout(POLL_INTERVAL) {
            Ok((line, ending)) => {
                tallies[line].verdicts.extend(ending.verdicts);
                tallies[line].blocks.push(ending.blocks);
                simulated += 1;
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

fn start_workers(lines: Vec<Terms>, seed: u64, total: usize) -> Receiver<(usize, Ending)> {
    let (sender, endings) = channel();
    let (lines, next) = (Arc::new(lines), Arc::new(AtomicUsize::new(0)));
    for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
        let (lines, next, sender) = (Arc::clone(&lines), Arc::clone(&next), sender.clone());
        thread::spawn(move || work(&lines, seed, &next, total, &sender));
    }
    endings
}

fn work(
    lines: &[Terms],
    seed: u64,
    next: &AtomicUsize,
    total: usize,
    sender: &Sender<(usize, Ending)>,
) {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= total {
            return;
        }
        let (run, line) = (index / lines.len(), index % lines.len());
        let ending = simulate(&lines[line], seed.wrapping_add(run as u64));
        if sender.send((line, ending)).is_err() {
            // The user interrupted the simulation.
            return;
        }
    }
}
