//! How long a run will take: from the trials that have ended, else from the one that is under way, else from the plan.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::journal::{Ending, Entry, Event};
use crate::rundir::Series;
use crate::verdict::look::{Look, Remaining};
use plan::Plan;

use crate::live::Attempt;

/// Seconds of load that must have been seen before a trial under way says how fast its clock is.
const SEEN_S: f64 = 10.0;

/// Attempts at one trial.
const ATTEMPTS: u32 = 2;

/// Time left, on this host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// If the next test settles every verdict, and trials are as short as the shortest so far.
    pub least: Duration,
    /// At the noise so far; `None` where nothing is tested yet.
    pub likely: Option<Duration>,
    /// If all blocks are run, and trials are as long as the longest so far.
    pub most: Duration,
    /// What that stands on.
    pub basis: Basis,
}

/// What an estimate stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// So many trials that have ended.
    Ended {
        /// How many.
        trials: u32,
    },
    /// The trial that is under way: its clock against this host's.
    UnderWay,
    /// The lengths in the plan; boots are not in it.
    Planned,
}

/// Trials still to run, by how soon verdicts are settled.
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

/// An attempt's place in `attempts` and the seconds of load, warm-up included, that were seen of it.
pub(crate) type SeenLoad = (usize, f64);

/// Time left of a run that goes on; `None` where it is over.
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
    let jobs = at_a_time(attempts);
    let left = |trials: f64, each_s: f64| {
        Duration::from_secs_f64(((trials * each_s - elapsed_s) / jobs).clamp(0.0, 1e9))
    };
    Some(Left {
        least: left(trials.least, length.shortest_s),
        likely: trials.likely.map(|trials| left(trials, length.mean_s)),
        most: left(trials.most, length.longest_s),
        basis: length.basis,
    })
}

/// Whether a run has ended, and was not given more blocks. A ceiling may have been measured since.
fn is_closed(entries: &[Entry]) -> bool {
    let mut back = entries.iter().rev();
    let end =
        back.find(|entry| matches!(entry.event, Event::Closed { .. } | Event::Extended { .. }));
    end.is_some_and(|entry| matches!(entry.event, Event::Closed { .. }))
}

fn trials(plan: &Plan, entries: &[Entry], attempts: &[Attempt]) -> Trials {
    let last_look = entries.iter().rev().find_map(|entry| match &entry.event {
        Event::Looked {
            blocks,
            looks,
            undecided,
        } => Some((*blocks, looks.as_slice(), Some(undecided))),
        _ => None,
    });
    let (looked, looks, undecided) = last_look.unwrap_or((0, &[], None));
    let most = plan.design.most_blocks();
    let next = plan.design.min_blocks.max(looked + 1).min(most);
    let mut sum = Trials {
        least: 0.0,
        likely: Some(0.0),
        most: 0.0,
    };
    for workload in &plan.workloads {
        if undecided.is_some_and(|open| !open.contains(&workload.id)) {
            continue;
        }
        let (first_test, likely) = settled_after(looks, &workload.id, looked);
        let done = done(attempts, &workload.id, looked);
        let until = |blocks: u32| {
            let blocks = blocks.clamp(looked, most) - looked;
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

/// The first block after which a workload is tested, and the one after which it is settled at the noise so far.
fn settled_after(looks: &[Look], workload: &str, looked: u32) -> (u32, Option<u32>) {
    let (mut first, mut likely) = (0, None);
    for look in looks {
        let Look::Metric(look) = look;
        if look.workload != workload {
            continue;
        }
        match look.remaining {
            Remaining::Decided | Remaining::Unknown => {}
            Remaining::FirstTest { block } => first = first.max(block),
            Remaining::Blocks { more, most, .. } => {
                let after = looked.saturating_add(more).min(most);
                likely = Some(likely.unwrap_or(0).max(after));
            }
        }
    }
    (first, likely)
}

/// Trials of blocks after the last look that need no other attempt.
fn done(attempts: &[Attempt], workload: &str, looked: u32) -> f64 {
    let over: BTreeSet<u32> = attempts
        .iter()
        .filter(|one| one.series == Series::Judged && !one.is_struck)
        .filter(|one| one.trial.workload == workload && one.trial.block > looked)
        .filter(|one| match one.ended {
            Some((_, Ending::Measured | Ending::Skipped)) => true,
            Some((_, Ending::Void(_))) => one.attempt >= ATTEMPTS,
            None => false,
        })
        .map(|one| one.trial.number)
        .collect();
    over.len() as f64
}

fn length(plan: &Plan, attempts: &[Attempt], seen: &[SeenLoad], now: SystemTime) -> Length {
    let ended: Vec<f64> = attempts
        .iter()
        .filter(|one| one.is_measured())
        .filter_map(|one| Some((one.begun?, one.ended?.0?)))
        .filter_map(|(from, to)| Some(to.duration_since(from).ok()?.as_secs_f64()))
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
    let lengths = plan.workloads.iter().map(|one| one.length.as_secs_f64());
    let planned_s = lengths.sum::<f64>() / plan.workloads.len().max(1) as f64;
    let pace = seen.iter().find_map(|(index, seen_s)| {
        let elapsed = now.duration_since(attempts[*index].begun?).ok()?;
        (*seen_s >= SEEN_S).then(|| elapsed.as_secs_f64() / seen_s)
    });
    let (each_s, basis) = match pace {
        Some(pace) => (planned_s * pace, Basis::UnderWay),
        None => (planned_s, Basis::Planned),
    };
    Length {
        shortest_s: each_s,
        mean_s: each_s,
        longest_s: each_s,
        basis,
    }
}

/// Time that trials under way have taken, none longer than a whole one.
fn elapsed_s(attempts: &[Attempt], mean_s: f64, now: SystemTime) -> f64 {
    let under_way = attempts.iter().filter(|one| one.ended.is_none());
    let each = under_way.filter_map(|one| now.duration_since(one.begun?).ok());
    each.map(|time| time.as_secs_f64().min(mean_s)).sum()
}

/// How many run at a time: those that do now.
fn at_a_time(attempts: &[Attempt]) -> f64 {
    let under_way = attempts.iter().filter(|one| one.ended.is_none()).count();
    under_way.max(1) as f64
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
    fn before_anything_was_seen_the_plan_tells() {
        let entries = [started(1, 1, "2026-01-01T00:00:00Z")];
        let left = left(&entries, None, "2026-01-01T00:00:00Z").unwrap();
        assert_eq!(left.basis, Basis::Planned);
        assert_eq!(seconds(left), (4 * 60, None, 10 * 60));
    }

    #[test]
    fn a_trial_under_way_tells_how_fast_its_clock_is() {
        let entries = [started(1, 1, "2026-01-01T00:00:00Z")];
        let left = left(&entries, Some(30.0), "2026-01-01T00:01:00Z").unwrap();
        assert_eq!(left.basis, Basis::UnderWay);
        assert_eq!(seconds(left), (4 * 120 - 60, None, 10 * 120 - 60));
    }

    #[test]
    fn ended_trials_give_the_range_and_a_look_what_is_likely() {
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
        let Some(Event::Looked { looks, .. }) =
            run.entries
                .iter_mut()
                .find_map(|entry| match &mut entry.event {
                    event @ Event::Looked { .. } => Some(event),
                    _ => None,
                })
        else {
            panic!("the fixture has a look");
        };
        let Some(Look::Metric(look)) = looks.first_mut() else {
            panic!("of a metric");
        };
        look.remaining = Remaining::Blocks {
            more: 2,
            margin: 0.01,
            most: 5,
        };
        let event = Event::Looked {
            blocks: 1,
            looks: looks.clone(),
            undecided: vec!["web-static".into()],
        };
        entries.push(entry(now, event));
        assert_eq!(
            seconds(left(&entries, None, now).unwrap()),
            (2 * 60, Some(4 * 90), 8 * 120)
        );
    }

    #[test]
    fn what_is_over_has_no_time_left() {
        let reason = crate::journal::CloseReason::Decided { blocks: 2 };
        let at = "2026-01-01T00:00:00Z";
        let mut entries = vec![entry(at, Event::Closed { reason })];
        assert_eq!(left(&entries, None, at), None);
        // Its ceiling was measured again since.
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
