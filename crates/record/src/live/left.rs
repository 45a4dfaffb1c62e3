//! Remaining time of a run: estimated from ended trials, else from the running one, else from the plan.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::journal::{Ending, Entry, Event};
use crate::rundir::Series;
use crate::verdict::interim::{InterimResult, Remaining};
use plan::Plan;

use crate::live::Attempt;

/// Least seconds of load from which the speed of a running trial's clock is estimated.
const SEEN_S: f64 = 10.0;

/// Most attempts at one trial.
const ATTEMPTS: u32 = 2;

/// Remaining host time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// If the next interim analysis decides everything, and trials are as short as the shortest so far.
    pub least: Duration,
    /// At the noise so far; `None` before the first interim analysis with an estimate.
    pub likely: Option<Duration>,
    /// If all blocks are run, and trials are as long as the longest so far.
    pub most: Duration,
    /// Basis of the estimate.
    pub basis: Basis,
}

/// Basis of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Trials that have ended.
    Ended {
        /// Number of trials.
        trials: u32,
    },
    /// The running trial: the speed of its clock on this host.
    UnderWay,
    /// The lengths in the plan, without boots.
    Planned,
}

/// Number of trials still to run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Trials {
    least: f64,
    likely: Option<f64>,
    most: f64,
}

/// Host time of one trial.
struct Length {
    shortest_s: f64,
    mean_s: f64,
    longest_s: f64,
    basis: Basis,
}

/// Index of an attempt in `attempts`, and its seconds of load so far, warm-up included.
pub(crate) type SeenLoad = (usize, f64);

/// Remaining time of a run; `None` if it is over or has not begun.
pub(crate) fn of(
    plan: &Plan,
    entries: &[Entry],
    attempts: &[Attempt],
    seen: &[SeenLoad],
    now: SystemTime,
) -> Option<Left> {
    if entries.is_empty() || is_closed(entries) {
        return None;
    }
    let trials = trials(plan, entries, attempts);
    let length = length(plan, attempts, seen, now);
    let elapsed_s = elapsed_s(attempts, length.mean_s, now);
    let parallel = parallel_trials(attempts);
    let left = |trials: f64, trial_s: f64| {
        Duration::from_secs_f64(((trials * trial_s - elapsed_s) / parallel).clamp(0.0, 1e9))
    };
    Some(Left {
        least: left(trials.least, length.shortest_s),
        likely: trials.likely.map(|trials| left(trials, length.mean_s)),
        most: left(trials.most, length.longest_s),
        basis: length.basis,
    })
}

/// Whether a run has ended and was not extended. Other entries may follow, such as a ceiling.
fn is_closed(entries: &[Entry]) -> bool {
    let mut reversed = entries.iter().rev();
    let last =
        reversed.find(|entry| matches!(entry.event, Event::Closed { .. } | Event::Extended { .. }));
    last.is_some_and(|entry| matches!(entry.event, Event::Closed { .. }))
}

fn trials(plan: &Plan, entries: &[Entry], attempts: &[Attempt]) -> Trials {
    let last_analysis = entries.iter().rev().find_map(|entry| match &entry.event {
        Event::InterimAnalysis {
            blocks,
            results,
            undecided,
        } => Some((*blocks, results.as_slice(), Some(undecided))),
        _ => None,
    });
    let (judged, results, undecided) = last_analysis.unwrap_or((0, &[], None));
    let most = plan.design.most_blocks();
    let next = plan.design.min_blocks.max(judged + 1).min(most);
    let mut sum = Trials {
        least: 0.0,
        likely: Some(0.0),
        most: 0.0,
    };
    for workload in &plan.workloads {
        if undecided.is_some_and(|ids| !ids.contains(&workload.id)) {
            continue;
        }
        let (first_test, likely) = decided_after(results, &workload.id, judged);
        let done = done(attempts, &workload.id, judged);
        let until = |blocks: u32| {
            let blocks = blocks.clamp(judged, most) - judged;
            (f64::from(blocks) * plan.arms.len() as f64 - done).max(0.0)
        };
        sum.least += until(next.max(first_test));
        sum.most += until(most);
        sum.likely = sum
            .likely
            .zip(likely)
            .map(|(sum, blocks)| sum + until(blocks));
    }
    sum
}

/// The first block after which a workload can be decided, and the one after which it is at the noise so far.
fn decided_after(results: &[InterimResult], workload: &str, judged: u32) -> (u32, Option<u32>) {
    let (mut first, mut likely) = (0, None);
    for result in results {
        let InterimResult::Metric(result) = result;
        if result.workload != workload {
            continue;
        }
        match result.remaining {
            Remaining::Decided | Remaining::Unknown => {}
            Remaining::FirstTest { block } => first = first.max(block),
            Remaining::Blocks { more, most, .. } => {
                let after = judged.saturating_add(more).min(most);
                likely = Some(likely.unwrap_or(0).max(after));
            }
        }
    }
    (first, likely)
}

/// Trials of blocks after the last interim analysis that need no further attempt.
fn done(attempts: &[Attempt], workload: &str, judged: u32) -> f64 {
    let numbers: BTreeSet<u32> = attempts
        .iter()
        .filter(|attempt| attempt.series == Series::Judged && !attempt.is_invalidated)
        .filter(|attempt| attempt.trial.workload == workload && attempt.trial.block > judged)
        .filter(|attempt| match attempt.ended {
            Some((_, Ending::Measured | Ending::Skipped)) => true,
            Some((_, Ending::Void(_))) => attempt.attempt >= ATTEMPTS,
            None => false,
        })
        .map(|attempt| attempt.trial.number)
        .collect();
    numbers.len() as f64
}

fn length(plan: &Plan, attempts: &[Attempt], seen: &[SeenLoad], now: SystemTime) -> Length {
    let ended: Vec<f64> = attempts
        .iter()
        .filter(|attempt| attempt.is_measured())
        .filter_map(|attempt| Some((attempt.begun?, attempt.ended?.0?)))
        .filter_map(|(begun, ended)| Some(ended.duration_since(begun).ok()?.as_secs_f64()))
        .collect();
    if !ended.is_empty() {
        return Length {
            shortest_s: ended.iter().copied().fold(f64::INFINITY, f64::min),
            mean_s: ended.iter().sum::<f64>() / ended.len() as f64,
            longest_s: ended.iter().copied().fold(0.0, f64::max),
            basis: Basis::Ended {
                trials: ended.len() as u32,
            },
        };
    }
    let lengths = plan.workloads.iter().map(|workload| workload.length);
    let planned_s = lengths.map(|length| length.as_secs_f64()).sum::<f64>()
        / plan.workloads.len().max(1) as f64;
    // Host seconds per second of load.
    let slowdown = seen.iter().find_map(|(index, seen_s)| {
        let elapsed = now.duration_since(attempts[*index].begun?).ok()?;
        (*seen_s >= SEEN_S).then(|| elapsed.as_secs_f64() / seen_s)
    });
    let (trial_s, basis) = match slowdown {
        Some(slowdown) => (planned_s * slowdown, Basis::UnderWay),
        None => (planned_s, Basis::Planned),
    };
    Length {
        shortest_s: trial_s,
        mean_s: trial_s,
        longest_s: trial_s,
        basis,
    }
}

/// Time that running trials have taken, each at most a mean trial's.
fn elapsed_s(attempts: &[Attempt], mean_s: f64, now: SystemTime) -> f64 {
    let running = attempts.iter().filter(|attempt| attempt.ended.is_none());
    let elapsed = running.filter_map(|attempt| now.duration_since(attempt.begun?).ok());
    elapsed.map(|time| time.as_secs_f64().min(mean_s)).sum()
}

/// Number of trials that run at a time, which is the number that run now.
fn parallel_trials(attempts: &[Attempt]) -> f64 {
    let running = attempts.iter().filter(|attempt| attempt.ended.is_none());
    running.count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use crate::fixtures::web;
    use crate::trial::Trial;

    use super::*;

    fn at(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).unwrap()
    }

    fn entry(at: &str, event: Event) -> Entry {
        Entry {
            at: at.into(),
            event,
        }
    }

    fn trial(number: u32, block: u32) -> Trial {
        Trial {
            number,
            block,
            slot: 1,
            arm: if number % 2 == 1 { "6.1" } else { "7.2" }.into(),
            workload: "web-static".into(),
        }
    }

    fn started(number: u32, block: u32, at: &str) -> Entry {
        let trial = trial(number, block);
        entry(at, Event::Started { trial, attempt: 1 })
    }

    fn ended(number: u32, block: u32, at: &str) -> Entry {
        let event = Event::Ended {
            trial: trial(number, block),
            attempt: 1,
            ending: Ending::Measured,
            record: String::new(),
            facts: None,
        };
        entry(at, event)
    }

    fn left(entries: &[Entry], seen_s: Option<f64>, now: &str) -> Option<Left> {
        let mut plan = web::just_begun().plan;
        (plan.design.min_blocks, plan.design.max_blocks) = (2, 5);
        plan.workloads.truncate(1);
        plan.workloads[0].length = Duration::from_secs(60);
        let attempts = crate::live::attempts::of(entries);
        let seen: Vec<SeenLoad> = seen_s
            .map(|s| (attempts.len() - 1, s))
            .into_iter()
            .collect();
        of(&plan, entries, &attempts, &seen, at(now))
    }

    fn seconds(left: Left) -> (u64, Option<u64>, u64) {
        let likely = left.likely.map(|time| time.as_secs());
        (left.least.as_secs(), likely, left.most.as_secs())
    }

    #[test]
    fn the_plan_is_the_basis_at_first() {
        let entries = [started(1, 1, "2026-01-01T00:00:00Z")];
        let left = left(&entries, None, "2026-01-01T00:00:00Z").unwrap();
        assert_eq!(left.basis, Basis::Planned);
        assert_eq!(seconds(left), (4 * 60, None, 10 * 60));
    }

    #[test]
    fn a_running_trial_shows_the_speed_of_its_clock() {
        let entries = [started(1, 1, "2026-01-01T00:00:00Z")];
        let left = left(&entries, Some(30.0), "2026-01-01T00:01:00Z").unwrap();
        assert_eq!(left.basis, Basis::UnderWay);
        assert_eq!(seconds(left), (4 * 120 - 60, None, 10 * 120 - 60));
    }

    #[test]
    fn ended_trials_give_the_range_and_an_interim_analysis_the_likely_time() {
        let mut entries = vec![
            started(1, 1, "2026-01-01T00:00:00Z"),
            ended(1, 1, "2026-01-01T00:01:00Z"),
            started(2, 1, "2026-01-01T00:01:00Z"),
            ended(2, 1, "2026-01-01T00:03:00Z"),
        ];
        let now = "2026-01-01T00:03:00Z";
        let before = left(&entries, None, now).unwrap();
        assert_eq!(before.basis, Basis::Ended { trials: 2 });
        assert_eq!(seconds(before), (2 * 60, None, 8 * 120));
        let mut run = web::two_kernels();
        let Some(Event::InterimAnalysis { results, .. }) =
            run.entries
                .iter_mut()
                .find_map(|entry| match &mut entry.event {
                    event @ Event::InterimAnalysis { .. } => Some(event),
                    _ => None,
                })
        else {
            panic!("the fixture has an interim analysis");
        };
        let Some(InterimResult::Metric(result)) = results.first_mut() else {
            panic!("of a metric");
        };
        result.remaining = Remaining::Blocks {
            more: 2,
            margin: 0.01,
            most: 5,
        };
        let event = Event::InterimAnalysis {
            blocks: 1,
            results: results.clone(),
            undecided: vec!["web-static".into()],
        };
        entries.push(entry(now, event));
        assert_eq!(
            seconds(left(&entries, None, now).unwrap()),
            (2 * 60, Some(4 * 90), 8 * 120)
        );
    }

    #[test]
    fn a_run_that_is_over_has_no_time_left() {
        let reason = crate::journal::CloseReason::Decided { blocks: 2 };
        let at = "2026-01-01T00:00:00Z";
        let mut entries = vec![entry(at, Event::Closed { reason })];
        assert_eq!(left(&entries, None, at), None);
        // A ceiling may be measured after the end.
        let ceiling = Event::Ceiling {
            workload: "web-static".into(),
            cpus: None,
            outcome: crate::load_path::CeilingOutcome::Failed { detail: "x".into() },
        };
        entries.push(entry(at, ceiling));
        assert_eq!(left(&entries, None, at), None);
        assert_eq!(left(&[], None, "2026-01-01T00:00:00Z"), None);
    }
}
