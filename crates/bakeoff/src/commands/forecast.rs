//! Forecasts a run's blocks and hours from the noise and trial times of an earlier run.

pub(super) mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use base::input::units::show_bytes;
use machine::emulator_choice;
use plan::{Clock, Design, MachineKind, Plan};
use record::journal::{Entry, Event};
use record::metric::Role;
use record::rundir;
use record::rundir::Run;
use serde::Serialize;

/// What an earlier run shows about a workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Known {
    /// The workload's id.
    pub(super) workload: String,
    /// Scale of a block's log-ratio, of the noisiest arm.
    pub(super) noise: f64,
    /// Effect of not being first in a block, as a share.
    pub(super) order_effect: f64,
    /// Share of trials that are outliers.
    pub(super) outliers: f64,
    /// Host time of a trial, boot included, in seconds.
    pub(super) trial_s: f64,
}

/// The forecast for a workload of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Forecast {
    /// The basis of the forecast.
    pub(super) known: Known,
    /// Blocks that show a difference of one margin in 95 of 100 runs.
    pub(super) blocks: u32,
    /// Host time of these blocks, all arms together.
    pub(super) hours: f64,
    /// Trials that run at a time.
    pub(super) jobs: usize,
}

/// What an earlier run shows about a plan.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The workloads of the run.
    pub(super) known: Vec<Known>,
    /// How the run differs from the plan.
    pub(super) warning: Option<String>,
}

/// How long the load of a trial takes, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// The plan determines it.
    Known(Duration),
    /// The mean of earlier trials of this plan.
    Measured(Duration),
    /// A program runs to completion, and only its limit is known.
    AtMost(Duration),
}

impl Length {
    pub(super) fn time(&self) -> Duration {
        match self {
            Self::Known(time) | Self::Measured(time) | Self::AtMost(time) => *time,
        }
    }
}

/// The lengths of a plan's workloads. Times measured in the plan's default run directory replace limits.
pub(super) fn lengths(plan: &Plan, file: &Path) -> Vec<Length> {
    let dir = Path::new("runs").join(file.file_stem().unwrap_or(file.as_os_str()));
    let mut run = None;
    let mut lengths = Vec::new();
    for workload in &plan.workloads {
        let length = match (workload.expected, workload::runs_to_completion(workload)) {
            (Some(expected), _) => Length::Known(expected),
            (None, false) => Length::Known(workload.length),
            (None, true) => {
                let run = run.get_or_insert_with(|| rundir::load(&dir, &workload::check).ok());
                let same = run
                    .as_ref()
                    .filter(|run| run.plan.workloads.contains(workload));
                let measured = same.and_then(|run| mean_trial(&run.entries, &workload.id));
                measured.map_or(Length::AtMost(workload.length), Length::Measured)
            }
        };
        lengths.push(length);
    }
    lengths
}

/// Reads the noise and trial times of an earlier run, and checks whether they apply to the plan.
pub(super) fn past(dir: &Path, plan: &Plan) -> Result<Past> {
    let run = rundir::load(dir, &workload::check)?;
    let judgement = judge::interim(&run);
    let known = |id: &String| {
        let primaries = judgement.comparisons.iter().filter(|comparison| {
            comparison.workload == *id
                && comparison.spec.role == Role::Primary
                && comparison.ratio.is_some()
                && comparison.blocks > 1
        });
        let (noise, noisiest) = primaries
            .filter_map(|comparison| Some((comparison.noise?, comparison)))
            .max_by(|(noise, _), (other_noise, _)| noise.total_cmp(other_noise))?;
        let outliers = noisiest
            .outliers
            .map_or(0, |count| count.arm + count.baseline);
        Some(Known {
            workload: id.clone(),
            noise,
            order_effect: noisiest.order_effect.unwrap_or(0.0),
            outliers: f64::from(outliers) / f64::from(2 * noisiest.blocks),
            trial_s: mean_trial(&run.entries, id)?.as_secs_f64(),
        })
    };
    let ids = run.plan.workloads.iter().map(|workload| &workload.id);
    let known: Vec<Known> = ids.filter_map(known).collect();
    if known.is_empty() {
        bail!(
            "no workload with two whole blocks in {} (let that run go on first)",
            dir.display()
        );
    }
    let differences = differences(&run, plan);
    let warning = (!differences.is_empty()).then(|| {
        format!(
            "{} is not what this plan asks for: {} (its noise and times may not hold)",
            dir.display(),
            differences.join("; ")
        )
    });
    Ok(Past { known, warning })
}

/// The differences between a run and a plan that affect noise and trial times.
fn differences(run: &Run, plan: &Plan) -> Vec<String> {
    let (was, is) = (&run.plan.machine, &plan.machine);
    let clock = run_clock(run);
    let mut differences = Vec::new();
    if was.kind != is.kind {
        differences.push(format!("machine was {:?}, is {:?}", was.kind, is.kind));
    }
    // For clock "auto", only the run shows which clock it used.
    if was.clock != is.clock && clock != is.clock {
        differences.push(format!("clock was {clock:?}, is {:?}", is.clock));
    }
    let (old, new) = (cpu_counts(&run.plan), cpu_counts(plan));
    if old != new {
        differences.push(format!("cpus were {old}, are {new}"));
    }
    if was.memory_bytes != is.memory_bytes {
        let (old, new) = (show_bytes(was.memory_bytes), show_bytes(is.memory_bytes));
        differences.push(format!("memory was {old}, is {new}"));
    }
    for workload in &plan.workloads {
        let mut before = run.plan.workloads.iter();
        if let Some(before) = before.find(|before| before.id == workload.id)
            && (&before.kind, &before.options) != (&workload.kind, &workload.options)
        {
            differences.push(format!("workload {} has other options", workload.id));
        }
    }
    differences.iter().map(|text| text.to_lowercase()).collect()
}

/// The clock that a run used, also if its plan left the choice open.
fn run_clock(run: &Run) -> Clock {
    match run.opening.ns_per_instruction {
        Some(_) => Clock::Instructions,
        None => Clock::Wall,
    }
}

/// The numbers of CPUs that arms have: `1` or `1, 2, 4`.
fn cpu_counts(plan: &Plan) -> String {
    let counts: BTreeSet<Option<u32>> = plan.arms.iter().map(|arm| plan.cpus(arm)).collect();
    let word = |count: &Option<u32>| count.map_or("all".to_owned(), |count| count.to_string());
    counts.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The forecasts for the plan's known workloads.
pub(super) fn forecasts(plan: &Plan, known: &[Known], jobs: usize) -> Vec<Forecast> {
    let fewest = blocks_needed(&plan.design);
    let forecast = |id: &String| {
        let known = known.iter().find(|known| known.workload == *id)?.clone();
        let needed =
            stats::interim::needed(known.noise, plan.design.margin, plan.design.error_rate);
        let blocks = needed.max(fewest);
        let hours = f64::from(blocks) * hours_of_block(plan, known.trial_s, jobs);
        Some(Forecast {
            known,
            blocks,
            hours,
            jobs,
        })
    };
    let ids = plan.workloads.iter().map(|workload| &workload.id);
    ids.filter_map(forecast).collect()
}

/// Host time of one block in hours, all arms together, if `jobs` trials run at a time.
pub(super) fn hours_of_block(plan: &Plan, trial_s: f64, jobs: usize) -> f64 {
    plan.arms.len() as f64 * trial_s / jobs as f64 / 3600.0
}

/// Whether a run of this plan would count instructions here, as far as that is known in advance.
pub(super) fn counts_instructions(plan: &Plan, qemu: Option<&Path>) -> Result<bool> {
    match plan.machine.clock {
        Clock::Instructions => Ok(true),
        Clock::Wall => Ok(false),
        Clock::Auto if plan.machine.kind == MachineKind::Local => Ok(false),
        Clock::Auto => super::with_progress(true, |cache, task| {
            let program = emulator_choice::for_kvm(qemu, cache, task);
            Ok(program.is_ok_and(|program| machine::kvm::is_known_to_emulate(cache, &program)))
        }),
    }
}

/// The fewest blocks after which the plan can show a difference; `None` if its `max_blocks` are too few.
pub(super) fn smallest_decisive(design: &Design) -> Option<u32> {
    // Every workload measures several metrics, so the primary one has half of the error rate.
    stats::interim::smallest(design.error_rate / 2.0, design)
}

/// The fewest blocks after which this plan can show a difference, or if it cannot, those of a longer plan.
pub(super) fn blocks_needed(design: &Design) -> u32 {
    let shortest = || stats::interim::fewest_blocks(design.error_rate / 2.0) as u32;
    smallest_decisive(design).unwrap_or_else(shortest)
}

/// Mean host time from the start of a trial's attempt to its end.
pub(super) fn mean_trial(entries: &[Entry], workload: &str) -> Option<Duration> {
    let (mut sum, mut count, mut began) = (Duration::ZERO, 0, BTreeMap::new());
    for entry in entries {
        match &entry.event {
            Event::Started { trial, .. } if trial.workload == workload => {
                began.insert(trial.number, time(entry));
            }
            Event::Ended { trial, .. } if trial.workload == workload => {
                let end = began.remove(&trial.number).flatten().zip(time(entry));
                if let Some(length) = end.and_then(|(from, to)| to.duration_since(from).ok()) {
                    sum += length;
                    count += 1;
                }
            }
            // The time between two sessions does not count.
            Event::Resumed { .. } | Event::Extended { .. } => began.clear(),
            Event::Started { .. }
            | Event::Ended { .. }
            | Event::Opened(_)
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Invalidated { .. }
            | Event::InterimAnalysis { .. }
            | Event::Profiling { .. }
            | Event::Profiled { .. }
            | Event::Closed { .. } => {}
        }
    }
    (count > 0).then(|| sum / count)
}

fn time(entry: &Entry) -> Option<SystemTime> {
    humantime::parse_rfc3339(&entry.at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::journal::Ending;
    use record::trial::Trial;

    #[test]
    fn a_plan_that_is_too_short_gets_the_number_of_blocks_that_it_needs() {
        let design = |max_blocks| Design {
            margin: 0.02,
            error_rate: 0.01,
            min_blocks: 2,
            max_blocks,
            ..Design::DEFAULTS
        };
        assert_eq!(
            (smallest_decisive(&design(5)), blocks_needed(&design(5))),
            (None, 9)
        );
        assert_eq!(smallest_decisive(&design(9)), Some(9));
        assert_eq!(
            smallest_decisive(&design(30)),
            Some(blocks_needed(&design(30)))
        );
    }

    fn entry(at: &str, event: Event) -> Entry {
        Entry {
            at: at.into(),
            event,
        }
    }

    fn trial(number: u32) -> Trial {
        Trial {
            number,
            block: 1,
            slot: 1,
            arm: "a".into(),
            workload: "web".into(),
        }
    }

    fn started(number: u32, at: &str) -> Entry {
        entry(
            at,
            Event::Started {
                trial: trial(number),
                attempt: 1,
            },
        )
    }

    fn ended(number: u32, at: &str) -> Entry {
        entry(
            at,
            Event::Ended {
                trial: trial(number),
                attempt: 1,
                ending: Ending::Measured,
                record: String::new(),
                facts: None,
            },
        )
    }

    #[test]
    fn an_interrupted_trial_does_not_lengthen_the_mean() {
        let bakeoff = "0.1.0".to_string();
        let entries = [
            started(1, "2026-01-01T00:00:00Z"),
            ended(1, "2026-01-01T00:00:10Z"),
            started(2, "2026-01-01T00:00:10Z"),
            entry("2026-01-02T00:00:00Z", Event::Resumed { bakeoff }),
            started(2, "2026-01-02T00:00:00Z"),
            ended(2, "2026-01-02T00:00:20Z"),
        ];
        assert_eq!(mean_trial(&entries, "web"), Some(Duration::from_secs(15)));
        assert_eq!(mean_trial(&entries, "other"), None);
    }

    #[test]
    fn trials_that_overlap_are_timed_separately() {
        let entries = [
            started(1, "2026-01-01T00:00:00Z"),
            started(2, "2026-01-01T00:00:05Z"),
            ended(1, "2026-01-01T00:00:20Z"),
            started(3, "2026-01-01T00:00:20Z"),
            ended(2, "2026-01-01T00:00:25Z"),
            ended(3, "2026-01-01T00:00:40Z"),
        ];
        assert_eq!(mean_trial(&entries, "web"), Some(Duration::from_secs(20)));
    }
}
